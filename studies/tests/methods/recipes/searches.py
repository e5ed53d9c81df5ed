# SPDX-License-Identifier: Apache-2.0
"""Small searches: sessions of them, and what they end with after a stop."""

from pathlib import Path
from typing import Any

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.loop import Session
from legcf.training.registry import resolve
from tests.training.sessions import session, stopped


def configured(name: str, method: dict[str, Any], **training: Any) -> RunConfig:
    quick = {"epochs": 2, "batch_size": 100, "learning_rate": 1e-2, "negatives": 3, "loss": "bpr"}
    return resolve(name, overrides={"method": method, "training": quick | training})


def stopped_and_resumed(dataset: Dataset, config: RunConfig, folder: Path, after: int) -> Session:
    """A run that is stopped as it tells line number `after`, and then goes on to its end."""
    stopped(dataset, config, folder, lambda running: len(running.lines) == after)
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
