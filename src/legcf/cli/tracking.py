# SPDX-License-Identifier: Apache-2.0
"""Log epochs to TensorBoard or MLflow as they end. A new tracker is a class and one line in TRACKERS.

metrics.jsonl is written in any case; trackers only repeat it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from legcf.core.config import RunConfig
from legcf.core.errors import MissingExtra
from legcf.core.plugins import find_part


class Tracker(Protocol):
    """Take every epoch's line, and at the end the metrics of the run.

    A missing package is found when it is made, files are written only from the first epoch on: a run's folder must be
    empty before.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None: ...

    def epoch(self, line: Mapping[str, Any]) -> None: ...

    def close(self, metrics: Mapping[str, Any] | None) -> None: ...


class TensorBoard:
    """Write event files in RUN/tensorboard: `tensorboard --logdir RUN` shows them."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra("Logging to TensorBoard", "tensorboard") from error
        self._open: Any = partial(SummaryWriter, str(folder / "tensorboard"))
        self._writer: Any = None
        self._epochs = 0

    def epoch(self, line: Mapping[str, Any]) -> None:
        self._writer = self._writer or self._open()
        for name, value in numbers(line).items():
            self._writer.add_scalar(name, value, self._epochs)
        self._epochs += 1

    def close(self, metrics: Mapping[str, Any] | None) -> None:
        if self._writer is not None:
            for name, value in numbers((metrics or {}).get("test", {}), "test/").items():
                self._writer.add_scalar(name, value, self._epochs)
            self._writer.close()


class MLflow:
    """Log a run of MLflow with all settings; MLFLOW_TRACKING_URI says where, else it is RUN/mlflow.db."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtra("Logging to MLflow", "mlflow") from error
        self._mlflow, self._folder, self._config = mlflow, folder, config
        self._epochs = 0

    def _open(self) -> None:
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            self._mlflow.set_tracking_uri(f"sqlite:///{(self._folder / 'mlflow.db').resolve()}")
        self._mlflow.set_experiment("legcf")
        self._mlflow.start_run(run_name=self._folder.name)
        settings = self._config.to_json()
        for section in ("method", "backbone", "training"):
            self._mlflow.log_params({f"{section}.{key}": value for key, value in settings[section].items()})
        self._mlflow.log_params({"seed": self._config.seed, "preset": self._config.preset})

    def epoch(self, line: Mapping[str, Any]) -> None:
        if self._epochs == 0:
            self._open()
        self._log(numbers(line), self._epochs)
        self._epochs += 1

    def close(self, metrics: Mapping[str, Any] | None) -> None:
        if self._epochs == 0:
            return
        if metrics is not None:
            self._log(numbers(metrics.get("test", {}), "test/"))
        self._mlflow.end_run("FINISHED" if metrics is not None else "FAILED")

    def _log(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Log values under names without @, which MLflow does not allow."""
        self._mlflow.log_metrics({name.replace("@", "_at_"): value for name, value in values.items()}, step=step)


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def tracker(name: str, folder: Path, config: RunConfig) -> Tracker:
    return find_part("log", name, TRACKERS)(folder, config)


def numbers(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return every number of a line, those inside other records with their names joined by a slash."""
    flat: dict[str, float] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = float(value)
    return flat
