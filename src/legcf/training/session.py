# SPDX-License-Identifier: Apache-2.0
"""Hold a run under way: what ranks, how it is validated, what it reports. `loop` trains it; some need no training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core import distributed
from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.evaluation.evaluate import sample_eval_users
from legcf.evaluation.evaluator import Evaluator
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.item_lists.recipe import Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.rerank import Reranker
from legcf.training.checkpoint import RunLog, TrainingState
from legcf.training.shared_work import Work
from legcf.training.stage import Stage

# Work in multiples of what `fast` takes: 2.4 s on Gowalla, 4.5 s on Yelp2018, 0.85 s on LastFM, about 3 s on ml-1m (two
# quiet cores, ml-1m busy ones). To the usual model before training, evaluated: 3.8, 2.5, 1.5, 2.5, of which after its
# codes are made 1.5, 1.0, 0.9, 2.2; it is begun where it may be done, and given up when time is up. To find α before
# that: 1.2, 0.9, 1.0, 3.0. To try a table in all its forms: about 1. To train: 2.8 and 2.0 on the first two. Lists
# beside what was trained, and its evaluation: 0.5, 0.6.
USUAL, CODED, FIND_ALPHA, A_TABLE, TRAINING, AFTER_TRAINING = 1.5, 1.0, 4.5, 1.0, 2.0, 0.6
WHOLE_TO_SET_UP = 3.0
"""A whole run with a selection, in multiples of its set-up: 3.0, 2.8, 3.3 and 3.0 on the same data."""


class OutOfTime(Exception):
    """Say that what comes next would not be done in time."""


@dataclass(frozen=True)
class Deadline:
    """Hold when a run has to be done, and answer what there is still time for."""

    at: float = math.inf
    """A time of `time.perf_counter`."""
    unit: float = 0.0
    """The seconds that the preset `fast` took with the same data: other work is estimated as a multiple of it."""

    @property
    def left(self) -> float:
        return self.at - time.perf_counter()

    def allows(self, units: float = 0.0, seconds: float = 0.0) -> bool:
        """Return whether what takes so long would be done in time."""
        return units * self.unit + seconds < self.left

    def require(self, units: float = 0.0, seconds: float = 0.0) -> None:
        """Raise OutOfTime where what takes so long would not be done in time."""
        if not self.allows(units, seconds):
            raise OutOfTime


CHECKPOINT = "checkpoint/state.safetensors"
_CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True, eq=False)
class TrainingOptions:
    """Hold how a run is carried out; none but `final` and `deadline` changes its result."""

    folder: Path | None = None
    """Where its files go; None: it writes none, as every process of a distributed run but the first."""
    resume: bool = False
    """Whether a run that was stopped in this folder goes on."""
    quiet: bool = False
    on_epoch: Callable[[dict[str, Any]], None] | None = None
    """Called with every line that the run reports."""
    final: bool = False
    """Whether the model, once selected and tested, is trained once more on every pair there is."""
    started: float | None = None
    """When the clock of `training.seconds` began, as `time.perf_counter` says it; None: when training begins."""
    deadline: Deadline = Deadline()
    """When the run has to be done; `training.seconds` sets it."""
    work: Work = field(default_factory=Work)
    """What runs on the same data may share."""


DEFAULT_OPTIONS = TrainingOptions()


class RunSession:
    """Hold a run whose model is solved: there is nothing to train, and so nothing to go on with after a stop."""

    def __init__(
        self,
        model: Any,
        dataset: Dataset,
        config: RunConfig,
        stages: Sequence[Stage[Any]],
        rng: np.random.Generator,
        options: TrainingOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.options = options
        self.model, self.dataset, self.config, self.stages, self.rng = model, dataset, config, stages, rng
        self.quiet = options.quiet
        self.state = TrainingState()
        self.log = RunLog(options.folder, options.on_epoch)
        method_lists = None if model is None else model.layer.item_lists(dataset.train)
        self.builder = RankingBuilder(config.ranking, method_lists=method_lists)
        users = sample_eval_users(dataset.validation, config.training.validation_users, config.seed)
        self.evaluator = Evaluator(dataset.validation, config.training.monitor, users)
        self._tried: dict[str, int] = {}  # rankings that were reported, of each stage
        self._clock = _CLOCKS[config.training.clock]
        self.expected_end = math.inf
        """When the run will be done, about, as `time.perf_counter` says it; only what listens is shown it."""
        self._prepare()

    def _prepare(self) -> None:
        """Make what steps of training need."""

    @property
    def layer(self) -> Any:
        """Return the layer; each stage knows the type of layer it trains (`TrainingView`), the loop trains any."""
        return self.model.layer

    @property
    def spent(self) -> float:
        return self.state.spent

    @property
    def lines(self) -> list[dict[str, Any]]:
        return self.log.lines

    def run(self) -> None:
        """Validate the model."""
        if self.validates:
            self._validate_start()

    def release(self) -> None:
        """Free what only training needs."""

    def can_resume(self) -> bool:
        """Return whether there is a checkpoint; without one the run starts anew, and what it reported is dropped."""

        def exists() -> bool:
            has_checkpoint = self.options.folder is not None and (self.options.folder / CHECKPOINT).exists()
            if not has_checkpoint:
                self.log.delete()
            return has_checkpoint

        return bool(distributed.run_on_first_and_broadcast(exists))

    def resume(self) -> bool:
        """Go back to the last checkpoint, if there is one."""
        return self.can_resume()

    # Validation ---------------------------------------------------------------------------------------------------

    @property
    def validates(self) -> bool:
        return self.dataset.validation.num_pairs > 0

    def ranking(self) -> Ranking:
        """Return what the model ranks by as it is now."""
        return self.builder.base(self.model.ranking())

    def validation_score(self) -> float:
        if not self.validates:
            return 0.0
        return self.evaluator.epoch_score(self._validation_metrics())

    def _validation_metrics(self) -> dict[str, float]:
        """Evaluate the model as a file would have it, by its codes where it has some; no other users have vectors."""
        ranking = self.builder.quantised(self.builder.base(self.model.ranking(self.evaluator.evaluated_users)))
        return self.evaluator.renumbered().metrics(ranking)

    def objective(self, stage: str, evaluator: Evaluator, report: bool = True) -> Objective:
        """Return the selection score of rankings by this evaluator, each reported as an epoch of `stage`."""
        evaluator = replace(evaluator, ranker=Reranker())
        best = 0.0  # of the same users

        def score(ranking: Ranking, facts: dict[str, Any]) -> float:
            nonlocal best
            self.options.deadline.require()
            started = self._now()
            metrics, score = evaluator.scored(ranking)
            ahead = score / best - 1 if best else None
            best = max(best, score)
            if report:
                self._tried[stage] = self._tried.get(stage, 0) + 1
                found = {"search": facts, "validation": metrics, "ahead": ahead}
                self._report(stage, self._tried[stage], None, found, started)
            return score

        return score

    def _validate_and_keep_best(self) -> dict[str, Any]:
        """Validate, and remember these weights if none were better."""
        metrics = self._validation_metrics()
        score = self.evaluator.epoch_score(metrics)
        stage = self.stages[self.state.stage]
        of_an_earlier_stage = bool(self.state.best_at) and self.state.best_at[0] < self.state.stage
        superseded = self.config.training.keep == "last-stage" and of_an_earlier_stage
        if stage.eligible_as_best and (score > self.state.best or superseded):
            self.state.best, self.state.best_at = score, [self.state.stage, self.state.epoch]
            self._remember()
        if score > self.state.stage_best:
            self.state.stage_best, self.state.stale = score, 0
            self.state.best_epochs[stage.name] = [self.state.epoch, score]
        else:
            self.state.stale += 1
        return {"validation": metrics}

    def _validate_start(self) -> None:
        """Validate the first values as well: a warm start may be hard to improve on."""
        started = self._now()
        report = self._validate_and_keep_best()
        self._report(self.stages[0].name, 0, None, report, started)

    def _remember(self) -> None:
        """Keep the weights as the best so far; those of a solved model stay as they are."""

    # What is reported ---------------------------------------------------------------------------------------------

    def _now(self) -> tuple[float, float]:
        """Return the time on the wall, and on the clock that limits the run."""
        return time.perf_counter(), self._clock()

    def _report(
        self, stage: str, epoch: int, loss: float | None, report: dict[str, Any], started: tuple[float, float]
    ) -> None:
        seconds, spent = (now - then for now, then in zip(self._now(), started, strict=True))
        self.state.seconds += seconds
        self.state.spent += spent
        self.state.lines += 1
        line = {"stage": stage, "epoch": epoch, "loss": loss, **report, "seconds": seconds}
        end = min(self.expected_end, self.options.deadline.at)
        left = end - time.perf_counter()
        self.log.add(line, {"seconds_left": left} if 0 < left < math.inf else {})
