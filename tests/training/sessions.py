# SPDX-License-Identifier: Apache-2.0
"""Sessions for tests: of any recipe, and stopped where a test wants it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.build import is_solved
from legcf.training.loop import Session
from legcf.training.registry import METHODS
from legcf.training.run import build_model
from legcf.training.session import RunSession, TrainingOptions
from legcf.training.stage import Stage


def session(
    dataset: Dataset,
    config: RunConfig,
    folder: Path | None = None,
    stages: Sequence[Stage[Any]] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Session:
    """A run that can start: of the method's own recipe unless stages are given."""
    rng = np.random.default_rng(config.seed)
    model = build_model(config, dataset, rng, folder)
    stages = stages or METHODS[config.method.name].recipe(config.method, config.training)
    kind = RunSession if is_solved(config) else Session
    return kind(model, dataset, config, stages, rng, TrainingOptions(folder, quiet=True, on_epoch=on_epoch))


def stopped(dataset: Dataset, config: RunConfig, folder: Path, when: Callable[[Session], bool]) -> None:
    """A run that ends without a word as soon as `when` says so of a line it has just written."""

    def stop(line: dict[str, Any]) -> None:
        if when(running):
            raise KeyboardInterrupt

    running = session(dataset, config, folder, on_epoch=stop)
    with pytest.raises(KeyboardInterrupt):
        running.run()
