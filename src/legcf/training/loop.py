# SPDX-License-Identifier: Apache-2.0
"""Train: the one loop for every method and every stage."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.errors import UserError
from legcf.core.progress import progress
from legcf.core.random_streams import Stream
from legcf.data.interactions import Interactions
from legcf.training import checkpoint
from legcf.training.checkpoint import TrainingState
from legcf.training.sampler import Sampler, TrainingBatch
from legcf.training.session import AFTER_TRAINING, CHECKPOINT, RunSession, TrainingOptions
from legcf.training.solved_model import SolvedModel
from legcf.training.stage import Stage

if TYPE_CHECKING:
    import torch

    from legcf.training.learning.autograd import AutogradLearner
    from legcf.training.learning.codebook import CodebookLearner
    from legcf.training.learning.losses import Loss

__all__ = ["Session", "TrainingOptions"]

_FIRST_STEPS = 5  # that take longer than others; after as many more an epoch's time is known


class Session(RunSession):
    """Train a model: with a sampler, a learner that takes the steps, and checkpoints of how far it has come."""

    def _prepare(self) -> None:
        self.learner: AutogradLearner | CodebookLearner  # a formula where a solved model learns its codebook, or torch
        if isinstance(self.model, SolvedModel):
            from legcf.training.learning.codebook import CodebookLearner

            self.learner = CodebookLearner(self.model, self.config.training)
        else:
            from legcf.training.learning.autograd import AutogradLearner  # here: formulas need no torch

            self.learner = AutogradLearner(self.model, self.config.training)
        self.sampler = self.sampler_of(self.dataset.train, self.model.folds)
        self.pairs = self.dataset.train
        self.held_out: Interactions | None = None
        self.best: dict[str, Any] = {}
        self._saved_at = time.monotonic()

    # The loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run every stage until it stops improving, then restore the weights that `training.keep` names."""
        training = self.config.training
        if self.validates and not self.state.lines and self.stages[0].eligible_as_best:
            self._validate_start()
        while self.state.stage < len(self.stages):
            stage = self.stages[self.state.stage]
            self._enter(stage)
            while self._goes_on(stage):
                started = self._now()
                report = stage.before_epoch(self, self.state.epoch + 1)
                loss = self._epoch(stage) if stage.iterates_batches else None
                report |= stage.after_epoch(self, self.state.epoch + 1)
                self.state.epoch += 1
                watched = stage.iterates_batches and stage.validated and self.validates
                if watched and self.state.epoch % training.evaluate_every == 0:
                    report |= self._validate_and_keep_best()
                self._report(stage.name, self.state.epoch, loss, report, started)
                self._checkpoint(now=False)
            is_last = self.state.stage == len(self.stages) - 1
            if self.best and (training.keep != "last" if is_last else training.continue_from == "best"):
                self.model.load_state_dict(self.best)
                self.model.release()  # what training made of the last weights is made anew when it is asked for
            self.state.stage, self.state.epoch, self.state.stale = self.state.stage + 1, 0, 0
            self.state.stage_best = -math.inf
            self._checkpoint(now=True)

    def new_optimiser(self) -> None:
        """Begin with a new Adam, without memory of earlier steps."""
        self.learner.new_optimiser()

    @property
    def optimiser(self) -> Any:
        """Return Adam: of torch or, for a formula, of numpy."""
        return self.learner.optimiser

    @property
    def loss(self) -> Loss:
        """Return the loss where torch trains."""
        return self._torch.loss

    def loss_of(self, vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
        """Compute the configured loss of a batch's vectors, without any penalty, where torch trains."""
        return self._torch.loss_of(vectors, batch)

    @property
    def _torch(self) -> AutogradLearner:
        return cast("AutogradLearner", self.learner)

    @property
    def _trains(self) -> bool:
        return any(stage.epochs for stage in self.stages)

    def sampler_of(
        self, pairs: Interactions, folds: NDArray[np.integer] | None = None, steps: int | None = None
    ) -> Sampler:
        """Return a sampler of these pairs as configured; negatives are unseen in all training pairs."""
        seen = self.dataset.train
        return Sampler(pairs, self.config.training, self.learner.negatives, folds, seen, steps).of_rank()

    def _enter(self, stage: Stage[Any]) -> None:
        """Make ready for a stage, whether it begins or goes on after a resume."""
        self.learner.enter(stage)
        if stage.held_out or self.held_out is not None:
            self._hold_out(stage.held_out)
        if stage.most_pairs is not None and self.pairs.num_pairs > stage.most_pairs:
            steps = -(-stage.most_pairs // self.config.training.batch_size)
            self.sampler = self.sampler_of(self.pairs, self.model.folds, steps)
        if self.state.epoch == 0 and (report := stage.begin(self)) is not None:
            self._report(stage.name, 0, None, report, self._now())

    def _hold_out(self, share: float) -> None:
        if self.model.folds is not None:
            raise UserError("training.edge_folds cannot go with a search that holds training pairs out; set it to 0.")
        train = self.dataset.train
        # A stream of its own: the same pairs for every stage, and after a resume.
        rng = Stream.HELD_OUT_PAIRS.generator(self.config.seed)
        kept = rng.permutation(train.num_pairs) >= share * train.num_pairs
        self.held_out = train.subset(~kept) if share else None
        self.pairs = train.subset(kept) if share else train
        self.sampler = self.sampler_of(self.pairs)
        self.model.keep_edges(kept if share else None)

    def _goes_on(self, stage: Stage[Any]) -> bool:
        limit = self.config.training.max_minutes
        in_time = limit is None or distributed.all_reduce_max(self.state.spent) <= limit * 60 * stage.time_share
        if self.state.epoch:
            in_time &= self.options.deadline.allows(AFTER_TRAINING, self.state.seconds / self.state.epoch)
        patient = self.state.stale < self.config.training.patience
        return self.state.epoch < stage.epochs and patient and in_time and not stage.finished(self)

    def _epoch(self, stage: Stage[Any]) -> float:
        total, pairs = 0.0, 0
        steps = self.sampler.steps_per_epoch
        title = f"{stage.name} {self.state.epoch + 1}/{stage.epochs}"
        warm, deadline = 0.0, self.options.deadline
        with progress(title, steps, "steps", self.quiet) as task:
            for number, batch in enumerate(self.sampler.epoch(self.rng)):
                if number == _FIRST_STEPS:
                    warm = time.perf_counter()
                elif number >= 2 * _FIRST_STEPS and self.state.epoch == 0:
                    each = (time.perf_counter() - warm) / (number - _FIRST_STEPS)
                    deadline.require(AFTER_TRAINING, seconds=each * (steps - number))
                self.set_learning_rate((self.state.epoch + number / steps) / max(stage.epochs, 1))
                stage.before_step(self, batch)
                total += self.step(batch) * batch.num_pairs
                stage.after_step(self, batch)
                pairs += batch.num_pairs
                task.advance(1)
                if stage.finished(self):
                    break
        total, pairs = distributed.all_reduce_sum(np.array([total, pairs], dtype=np.float64))
        mean = float(total / max(pairs, 1))
        if not math.isfinite(mean):
            raise UserError(
                f"The loss is no longer a number in {title}; lower training.learning_rate"
                f" ({self.config.training.learning_rate}) or set training.gradient_clip."
            )
        return mean

    def step(self, batch: TrainingBatch) -> float:
        """Take one gradient step, and return the loss."""
        return self.learner.step(batch, self.rng)

    def set_learning_rate(self, done: float) -> None:
        """Set the scheduled rate after this share of a stage; a stage of many trainings asks for its own."""
        training = self.config.training
        factor = 0.5 * (1 + math.cos(math.pi * done)) if training.schedule == "cosine" else 1.0
        for group in self.optimiser.param_groups:
            group["lr"] = training.learning_rate * factor * group["scale"]

    def _remember(self) -> None:
        self.best = self.learner.values()

    def release(self) -> None:
        """Free what steps of training need, once they are done."""
        self.best = {}
        self.learner.release()

    # What is written ----------------------------------------------------------------------------------------------

    def _checkpoint(self, now: bool) -> None:
        due = time.monotonic() - self._saved_at >= self.config.training.checkpoint_seconds
        if self.options.folder is None or not (now or due):
            return
        groups = {
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": checkpoint.optimiser_tensors(self.optimiser) if self._trains else {},
            "stage": self.stages[self.state.stage].state() if self.state.stage < len(self.stages) else {},
        }
        facts = {"state": asdict(self.state), "generator": self.rng.bit_generator.state}
        checkpoint.save(self.options.folder / CHECKPOINT, groups, facts)
        self._saved_at = time.monotonic()

    def resume(self) -> bool:
        """Go back to the last checkpoint, if there is one; lines that were reported after it are dropped."""
        if not self.can_resume():
            return False
        path = (self.options.folder or Path()) / CHECKPOINT
        groups, facts = checkpoint.loaded(distributed.broadcast_bytes(lambda: checkpoint.read(path)), path)
        try:
            self.state = TrainingState(**facts["state"])
            self.rng.bit_generator.state = facts["generator"]
            self.best = self.learner.restored(groups.get("best", {}))
            self.model.load_state_dict(groups["model"])
            if self._trains:
                checkpoint.restore_optimiser(self.optimiser, self.learner.restored(groups["optimiser"]))
            if groups.get("stage"):
                self.stages[self.state.stage].load_state(self._torch.restored(groups["stage"]))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{path} does not fit this run ({str(error).splitlines()[0]}); start a new run in another folder."
            ) from error
        self.model.rebuild()
        self.log.restore(self.state.lines)
        return True
