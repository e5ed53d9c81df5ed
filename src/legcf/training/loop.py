# SPDX-License-Identifier: Apache-2.0
"""The one training loop, for every method and every stage."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.config import RunConfig, TrainingConfig
from legcf.core.errors import UserError
from legcf.core.files import written_whole
from legcf.core.progress import progress
from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation import CHOOSING_SCORES, Ranker, eval_users, evaluate, sample_eval_users, selection_score
from legcf.evaluation.metrics import METRICS
from legcf.ranking.builder import BuiltRanking, RankingBuilder
from legcf.ranking.item_lists.recipe import Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.rerank import Reranker
from legcf.ranking.topk import rank
from legcf.training import checkpoint
from legcf.training.checkpoint import TrainingState
from legcf.training.losses import LOSSES
from legcf.training.model import GraphModel
from legcf.training.objective import left_out, squared_norms
from legcf.training.sampler import Sampler, TrainingBatch
from legcf.training.stage import Stage

_CHECKPOINT = "checkpoint/state.safetensors"
_CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


class Session:
    """A run under way: the model, its data, its generator, its optimiser and where it stands."""

    def __init__(
        self,
        model: GraphModel,
        dataset: Dataset,
        config: RunConfig,
        stages: Sequence[Stage[Any]],
        rng: np.random.Generator,
        folder: Path | None = None,
        quiet: bool = False,
        folds: NDArray[np.integer] | None = None,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
        builder: RankingBuilder | None = None,
    ) -> None:
        """`on_epoch` is called with every line that the run writes."""
        self.model, self.dataset, self.config, self.stages, self.rng = model, dataset, config, stages, rng
        self.folder, self.quiet, self._on_epoch = folder, quiet, on_epoch
        training = config.training
        check(training)
        self.loss = LOSSES[training.loss]
        self.folds = folds
        self.sampler = self.sampler_of(dataset.train, folds)
        self.pairs = dataset.train
        self.held_out: Interactions | None = None
        self.new_optimiser()
        self.state = TrainingState()
        self.best: checkpoint.Tensors = {}
        self.lines: list[dict[str, Any]] = []
        self.builder = builder or RankingBuilder(config.ranking)
        self._monitor = _parse_metric(training.monitor)
        self._eval_users = sample_eval_users(dataset.validation, training.validation_users, config.seed)
        self._saved_at = time.monotonic()
        self._clock = _CLOCKS[training.clock]

    @property
    def layer(self) -> Any:
        """Each stage knows the layer it trains (`TrainingView`); the loop itself trains any."""
        return self.model.layer

    @property
    def spent(self) -> float:
        return self.state.spent

    # The loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Every stage until it stops getting better, then the weights that `training.keep` names."""
        training = self.config.training
        if self.validates and not self.state.lines and self.stages[0].eligible_as_best:
            self._judge_start()
        while self.state.stage < len(self.stages):
            stage = self.stages[self.state.stage]
            self._enter(stage)
            while self._goes_on(stage):
                started = self._now()
                told = stage.before_epoch(self, self.state.epoch + 1)
                loss = self._epoch(stage) if stage.iterates_batches else None
                told |= stage.after_epoch(self, self.state.epoch + 1)
                self.state.epoch += 1
                watched = stage.iterates_batches and stage.validated and self.validates
                if watched and self.state.epoch % training.evaluate_every == 0:
                    told |= self._judge()
                self._tell(stage.name, self.state.epoch, loss, told, started)
                self._checkpoint(now=False)
            is_last = self.state.stage == len(self.stages) - 1
            if training.keep != "last" if is_last else training.continue_from == "best":
                self.restore_best()
            self.state.stage, self.state.epoch, self.state.stale = self.state.stage + 1, 0, 0
            self.state.stage_best = -math.inf
            self._checkpoint(now=True)

    def new_optimiser(self) -> None:
        """Adam without memory of earlier steps, over all parameters; a stage that starts afresh asks for one."""
        self._groups = [{"params": [weight], "scale": self._rate_scale(weight)} for weight in self.model.parameters()]
        self._optimiser: torch.optim.Optimizer | None = None

    @property
    def optimiser(self) -> torch.optim.Optimizer:
        """Made when it is first used: torch takes more than a second for it, and some runs train nothing."""
        if self._optimiser is None:
            training = self.config.training
            betas = (0.9, training.beta2)
            # Fused: one pass over the weights instead of eight, a tenth of the time for a wide table.
            self._optimiser = torch.optim.Adam(self._groups, lr=training.learning_rate, betas=betas, fused=True)
        return self._optimiser

    @property
    def _trains(self) -> bool:
        return any(stage.epochs for stage in self.stages)

    def sampler_of(
        self, pairs: Interactions, folds: NDArray[np.integer] | None = None, steps: int | None = None
    ) -> Sampler:
        """Batches of these pairs as the configuration wants them; negatives are unseen in all training pairs."""
        training = self.config.training
        sampler = Sampler(
            pairs,
            training.batch_size,
            training.negatives,
            training.order,
            self.loss.negatives,
            training.user_power,
            training.item_power,
            folds,
            seen=self.dataset.train,
            steps=steps,
            pool=training.negative_pool,
        )
        return sampler.of_rank()

    def _enter(self, stage: Stage[Any]) -> None:
        """Make ready for a stage, whether it begins or goes on after a resume."""
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(stage.trains(name))
        if stage.held_out or self.held_out is not None:
            self._hold_out(stage.held_out)
        if stage.most_pairs is not None and self.pairs.num_pairs > stage.most_pairs:
            self.sampler = self.sampler_of(
                self.pairs, self.folds, -(-stage.most_pairs // self.config.training.batch_size)
            )
        if self.state.epoch == 0 and (told := stage.begin(self)) is not None:
            self._tell(stage.name, 0, None, told, self._now())

    def _hold_out(self, share: float) -> None:
        if self.folds is not None:
            raise UserError("training.edge_folds cannot go with a search that holds training pairs out; set it to 0.")
        train = self.dataset.train
        # A generator of its own: the same pairs for every stage, and after a resume.
        kept = np.random.default_rng([self.config.seed, 1]).permutation(train.num_pairs) >= share * train.num_pairs
        self.held_out = train.subset(~kept) if share else None
        self.pairs = train.subset(kept) if share else train
        self.sampler = self.sampler_of(self.pairs)
        self.model.keep_edges(kept if share else None)

    def _goes_on(self, stage: Stage[Any]) -> bool:
        limit = self.config.training.max_minutes
        in_time = limit is None or distributed.all_reduce_max(self.state.spent) <= limit * 60 * stage.time_share
        patient = self.state.stale < self.config.training.patience
        return self.state.epoch < stage.epochs and patient and in_time and not stage.finished(self)

    def _epoch(self, stage: Stage[Any]) -> float:
        total, pairs = 0.0, 0
        steps = self.sampler.steps_per_epoch
        title = f"{stage.name} {self.state.epoch + 1}/{stage.epochs}"
        with progress(title, steps, "steps", self.quiet) as task:
            for number, batch in enumerate(self.sampler.epoch(self.rng)):
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
        """One gradient step; returns the loss."""
        training = self.config.training
        entities = torch.from_numpy(batch.entities)
        encoded, travelled = self.model.encoded(entities, batch.fold, self.rng)
        vectors, pairs = encoded, batch
        if training.exclude_target:
            vectors, pairs = left_out(self.model, vectors, entities, batch)
        loss = self.loss_of(vectors, pairs)
        if training.l2:
            loss = loss + training.l2 * squared_norms(self.model, training.l2_on, batch, entities, encoded, travelled)
        penalty = self.model.layer.penalty()
        if penalty is not None:
            loss = loss + penalty
        self.optimiser.zero_grad(set_to_none=True)
        if not loss.requires_grad:  # a stage that trains nothing
            return loss.item()
        loss.backward()  # type: ignore[no-untyped-call]
        distributed.average_gradients(self.model.parameters(), batch.num_pairs)
        if training.gradient_clip is not None:
            torch.nn.utils.clip_grad_value_(self.model.parameters(), training.gradient_clip)
        self.optimiser.step()
        return loss.item()

    def loss_of(self, vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
        """The configured loss of a batch's vectors, without any penalty."""
        training = self.config.training
        return self.loss(vectors, batch, training.negative_weight, training.temperature)

    def set_learning_rate(self, done: float) -> None:
        """As the schedule wants it after this share of a stage; a stage of many trainings asks for its own."""
        training = self.config.training
        factor = 0.5 * (1 + math.cos(math.pi * done)) if training.schedule == "cosine" else 1.0
        for group in self.optimiser.param_groups:
            group["lr"] = training.learning_rate * factor * group["scale"]

    def _rate_scale(self, parameter: torch.nn.Parameter) -> float:
        size = float(parameter.detach().square().mean().sqrt())
        return size if self.config.training.scale_lr_by_rms and size > 0 else 1.0

    # Validation ---------------------------------------------------------------------------------------------------

    @property
    def validates(self) -> bool:
        return self.dataset.validation.num_pairs > 0

    def ranking(self) -> Ranking:
        """What the model as it is now ranks by."""
        return self.builder.base(self.model.ranking())

    def validation_score(self) -> float:
        return self.validate(self.ranking())[self.config.training.monitor] if self.validates else 0.0

    def validate(self, ranking: Ranking, by_all: bool = False, rank: Ranker = rank) -> dict[str, float]:
        """The monitored metric on the validation pairs, with recall and NDCG at 20."""
        name, k = self._monitor
        names = {name, "recall", "ndcg"}
        users = eval_users(self.dataset.validation, CHOOSING_SCORES) if by_all else self._eval_users
        return evaluate(ranking, self.dataset.validation, sorted({k, 20}), users, names, rank=rank)

    def tuned(self) -> BuiltRanking:
        """After training: the ranking with what can still be chosen chosen on validation; every trial is reported."""
        judge = self.judge("lists", by_all=True)
        return self.builder.build(self.model.ranking(), judge if self.validates else None)

    def judge(self, stage: str, by_all: bool = False, reported: bool = True) -> Objective:
        """How good rankings are on validation (`worth`), each reported as an epoch of `stage`.

        Lists are judged at last by all validation users, however few watch the training.
        """
        tried, rank = itertools.count(1), Reranker()

        def score(ranking: Ranking, facts: dict[str, Any]) -> float:
            started = self._now()
            metrics = self.validate(ranking, by_all, rank)
            if reported:
                told = {"search": facts, "validation": metrics}
                self._tell(stage, next(tried), None, told, started)
            return selection_score(metrics, self.config.training.monitor)

        return score

    def _judge(self) -> dict[str, Any]:
        """Validate, and remember these weights if none were better."""
        metrics = self.validate(self.ranking())
        score = metrics[self.config.training.monitor]
        stage = self.stages[self.state.stage]
        of_an_earlier_stage = bool(self.state.best_at) and self.state.best_at[0] < self.state.stage
        superseded = self.config.training.keep == "last-stage" and of_an_earlier_stage
        if stage.eligible_as_best and (score > self.state.best or superseded):
            self.state.best, self.state.best_at = score, [self.state.stage, self.state.epoch]
            self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        if score > self.state.stage_best:
            self.state.stage_best, self.state.stale = score, 0
            self.state.best_epochs[stage.name] = [self.state.epoch, score]
        else:
            self.state.stale += 1
        return {"validation": metrics}

    def _judge_start(self) -> None:
        """The values that training starts from are a candidate too: a warm start may be hard to better."""
        started = self._now()
        told = self._judge()
        self._tell(self.stages[0].name, 0, None, told, started)

    def restore_best(self) -> None:
        if self.best:
            self.model.load_state_dict(self.best)
            self.model.rebuild()

    # What is written ----------------------------------------------------------------------------------------------

    def _now(self) -> tuple[float, float]:
        """By the clock on the wall, and by the one that limits the run."""
        return time.perf_counter(), self._clock()

    def _tell(
        self, stage: str, epoch: int, loss: float | None, told: dict[str, Any], started: tuple[float, float]
    ) -> None:
        seconds, spent = (now - then for now, then in zip(self._now(), started, strict=True))
        self.state.seconds += seconds
        self.state.spent += spent
        line = {"stage": stage, "epoch": epoch, "loss": loss, **told, "seconds": seconds}
        self.lines.append(line)
        self.state.lines += 1
        if self.folder is not None:
            with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if self._on_epoch is not None:
            self._on_epoch(line)

    def _checkpoint(self, now: bool) -> None:
        due = time.monotonic() - self._saved_at >= self.config.training.checkpoint_seconds
        if self.folder is None or not (now or due):
            return
        groups = {
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": checkpoint.optimiser_tensors(self.optimiser) if self._trains else {},
            "stage": self.stages[self.state.stage].state() if self.state.stage < len(self.stages) else {},
        }
        facts = {"state": asdict(self.state), "generator": self.rng.bit_generator.state}
        checkpoint.save(self.folder / _CHECKPOINT, groups, facts)
        self._saved_at = time.monotonic()

    def can_resume(self) -> bool:
        """Whether there is a checkpoint; without one a run starts anew, and what it had reported is dropped."""

        def exists() -> bool:
            assert self.folder is not None
            found = (self.folder / _CHECKPOINT).exists()
            if not found:
                (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return found

        return bool(distributed.run_on_first_and_broadcast(exists))

    def resume(self) -> bool:
        """Go back to the last checkpoint, if there is one; the lines told after it are dropped."""
        if not self.can_resume():
            return False
        path = (self.folder or Path()) / _CHECKPOINT
        groups, facts = checkpoint.loaded(distributed.broadcast_bytes(lambda: checkpoint.read(path)), path)
        try:
            self.state = TrainingState(**facts["state"])
            self.rng.bit_generator.state = facts["generator"]
            self.best = groups.get("best", {})
            self.model.load_state_dict(groups["model"])
            if self._trains:
                checkpoint.restore_optimiser(self.optimiser, groups["optimiser"])
            if groups.get("stage"):
                self.stages[self.state.stage].load_state(groups["stage"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{path} does not fit this run ({str(error).splitlines()[0]}); start a new run in another folder."
            ) from error
        self.model.rebuild()
        self._drop_later_lines()
        return True

    def _drop_later_lines(self) -> None:
        if self.folder is None:
            return
        lines = self.folder / "metrics.jsonl"
        kept = lines.read_text(encoding="utf-8").splitlines()[: self.state.lines] if lines.exists() else []
        self.lines = [json.loads(line) for line in kept]
        with written_whole(lines) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def check(training: TrainingConfig) -> None:
    """Refuse names that nothing here answers to: to be called before anything that takes long."""
    if training.loss not in LOSSES:
        raise UserError(f"training.loss = {training.loss!r} is not one of {', '.join(sorted(LOSSES))}.")
    _parse_metric(training.monitor)


def _parse_metric(text: str) -> tuple[str, int]:
    name, _, k = text.partition("@")
    if name not in METRICS or not k.isdigit() or int(k) < 1:
        raise UserError(f"training.monitor = {text!r} is not a metric such as ndcg@20; names: {', '.join(METRICS)}.")
    return name, int(k)
