# SPDX-License-Identifier: Apache-2.0
"""Make the best model that a number of seconds allows: `fast` first, then the usual way as far as time goes.

Work is estimated before it begins, in multiples of what `fast` took with the same data on the same cores. What would
not be done in time is left out: the search for α, tables, training, in the end all that goes beyond `fast`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from legcf.core import distributed
from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf.training.session import USUAL, Deadline, OutOfTime, TrainingOptions

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel

_QUICK = "fast"
_KEPT_SETTINGS = {"training": ("monitor", "threads"), "ranking": ("bytes", "half_life_items", "repeat_weight")}
"""What holds for every model of a run, whatever its preset."""
_IMPORT_SECONDS = 0.9  # of torch, which `fast` does without
_EVALUATION = 2.0  # of a usual model, in multiples of that of `fast`: 1.8 on Gowalla, 1.7 on Yelp2018
_SECONDS_TO_WRITE = 0.4  # a run's files and what is printed: 0.2 s on Gowalla


def check_seconds(config: RunConfig, resume: bool) -> None:
    """Refuse, before any work is done, what `training.seconds` does not go with."""
    if config.training.seconds is None:
        return
    if not config.ranking.search_representation:
        raise UserError(
            f"--seconds makes the most of a time by selecting, and preset {config.preset} of {config.method.name} has"
            " nothing to select: leave out --seconds, or take the preset default of legcf."
        )
    if resume:
        raise UserError("A run within --seconds cannot be continued, its time is over: choose another --out.")
    if distributed.world_size() > 1:
        raise UserError("--seconds is for one process, since clocks of several differ: leave out --workers.")


def with_deadline(config: RunConfig, options: TrainingOptions) -> TrainingOptions:
    """Return the options with the time by which `training.seconds` has the run done."""
    seconds = config.training.seconds
    if seconds is None or options.deadline != Deadline():  # a rehearsal has been given its share
        return options
    check_seconds(config, options.resume)
    began = time.perf_counter() if options.started is None else options.started
    return replace(options, deadline=Deadline(began + seconds - _SECONDS_TO_WRITE))


def rehearsal_share(options: TrainingOptions, rehearsed: int, whole: int) -> TrainingOptions:
    """Return the options of a rehearsal of some pairs, whose model is then made again of all: time goes by pairs."""
    share = rehearsed / (rehearsed + whole)
    return replace(options, deadline=Deadline(time.perf_counter() + options.deadline.left * share))


def best_in_time(
    config: RunConfig, options: TrainingOptions, make: Callable[[RunConfig, TrainingOptions], TrainedModel]
) -> TrainedModel:
    """Make `fast`, then the usual model if there is time for it, and return the better on validation.

    The settings of what is returned have no clock: they give the same model again.
    """
    began = time.perf_counter()
    without_clock = config.model_copy(update={"training": config.training.model_copy(update={"seconds": None})})
    quick = make(_quick_config(config), replace(options, folder=None, deadline=Deadline(), on_epoch=None))
    unit = time.perf_counter() - began
    deadline = Deadline(options.deadline.at - _EVALUATION * quick.metrics["seconds"]["evaluate"], unit)
    if options.on_epoch is not None:
        line = {"stage": _QUICK, "epoch": 0, "loss": None, "validation": quick.metrics["validation"], "seconds": unit}
        options.on_epoch({**line, "seconds_left": deadline.left})
    try:
        deadline.require(USUAL, seconds=0.0 if "torch" in sys.modules else _IMPORT_SECONDS)
        usual = make(without_clock, replace(options, deadline=deadline))
    except OutOfTime:
        kept, why = quick, "there was no time for more"
    else:
        kept, why = (quick, "it ranks better") if _score(quick) > _score(usual) else (usual, "")
    within = {"seconds": config.training.seconds, "kept": kept.config.preset, **({"since": why} if why else {})}
    return replace(kept, metrics={**kept.metrics, "within": within})


def _quick_config(config: RunConfig) -> RunConfig:
    sections = {name: getattr(config, name) for name in _KEPT_SETTINGS}
    kept = {name: {key: getattr(sections[name], key) for key in keys} for name, keys in _KEPT_SETTINGS.items()}
    return resolve("legcf", None, _QUICK, config.seed, kept, config.data)


def _score(trained: TrainedModel) -> float:
    """Return the geometric mean of recall and NDCG of all validation pairs; 0 where there are none."""
    validation = trained.metrics["validation"]
    return float(np.sqrt(validation["recall@20"] * validation["ndcg@20"])) if validation else 0.0
