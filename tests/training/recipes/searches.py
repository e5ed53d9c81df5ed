"""Small searches: sessions of them, and what they end with after a stop."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.configuration import RunConfig
from legcf.data.interactions import Dataset
from legcf.registry import METHODS, resolve
from legcf.runs import build_model
from legcf.training.loop import Session


def session(dataset: Dataset, config: RunConfig, folder: Path | None = None) -> Session:
    rng = np.random.default_rng(config.seed)
    model = build_model(config, dataset, rng, folder)
    return Session(model, dataset, config, METHODS[config.method.name].recipe(config), rng, folder, quiet=True)


def configured(name: str, method: dict[str, Any], **training: Any) -> RunConfig:
    quick = {"epochs": 2, "batch_size": 100, "learning_rate": 1e-2, "negatives": 3, "loss": "bpr"}
    return resolve(name, overrides={"method": method, "training": quick | training})


def stopped_and_resumed(dataset: Dataset, config: RunConfig, folder: Path, after: int) -> Session:
    """A run that is stopped as it tells line number `after`, and then goes on to its end."""
    first = session(dataset, config, folder)

    def stop(line: dict[str, Any]) -> None:
        if len(first.lines) == after:
            raise KeyboardInterrupt

    first.on_epoch = stop
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = session(dataset, config, folder)
    second.resume()
    second.run()
    return second


def without_time(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **{key: value for key, value in line.items() if key != "seconds"},
            "search": {key: value for key, value in line.get("search", {}).items() if key != "seconds_left"},
        }
        for line in lines
    ]
