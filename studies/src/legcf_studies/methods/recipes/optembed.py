# SPDX-License-Identifier: Apache-2.0
"""Define OptEmbed's stages: a supernet of all widths, an evolution of the two widths, and training of the best."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import torch

from legcf.core.config import TrainingConfig
from legcf.core.progress import progress
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.recipes.asked import held_out_score, seconds_left, time_is_up
from legcf_studies.methods.sized.optembed import OptEmbed, OptEmbedConfig

Genome = tuple[int, int]
"""The width of users and of items."""

_TRIES = 200  # to find a candidate that is new; near the end of a small space there may be none


def stages(settings: OptEmbedConfig, training: TrainingConfig) -> list[Stage[OptEmbed]]:
    supernet = training.epochs if settings.supernet_epochs is None else settings.supernet_epochs
    return [
        Supernet("supernet", supernet, held_out=settings.held_out),
        Evolve("evolve", settings.generations, held_out=settings.held_out),
        RetrainSettled("retrain", training.epochs),
    ]


class Supernet(Stage[OptEmbed]):
    """Draw other widths in every step, so that any prefix of a row learns to do without the rest.

    It ends when the held-out pairs, ranked with full widths, are ranked no better for `patience` epochs.
    """

    eligible_as_best, validated, time_share = False, False, 0.4

    _best, _stale = 0.0, 0

    def finished(self, session: TrainingView[OptEmbed]) -> bool:
        return self._stale >= session.config.training.patience

    def before_epoch(self, session: TrainingView[OptEmbed], epoch: int) -> dict[str, Any]:
        thresholds = session.layer.thresholds
        for group in session.optimiser.param_groups:
            if group["params"][0] is thresholds:
                group["scale"] = 0.0  # they have a plain descent of their own
        return {}

    def before_step(self, session: TrainingView[OptEmbed], batch: TrainingBatch) -> None:
        session.layer.set_sides(*session.layer.draw_sides(session.rng))

    @torch.no_grad()
    def after_step(self, session: TrainingView[OptEmbed], batch: TrainingBatch) -> None:
        layer = session.layer
        if layer.thresholds.grad is not None:
            layer.thresholds.sub_(layer.config.threshold_rate * layer.thresholds.grad)
        layer.set_sides(layer.widest(0, 1), layer.widest(1, 1))

    def after_epoch(self, session: TrainingView[OptEmbed], epoch: int) -> dict[str, Any]:
        score = held_out_score(session, session.layer.config.eval_users)
        self._stale = 0 if score > self._best else self._stale + 1
        self._best = max(score, self._best)
        return {"search": {"held_out": score, **_kept(session.layer)}}

    def state(self) -> dict[str, torch.Tensor]:
        return {"best": torch.tensor([self._best, self._stale], dtype=torch.float64)}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._best, self._stale = state["best"][0].item(), int(state["best"][1])


class Evolve(Stage[OptEmbed]):
    """Breed a generation per epoch: candidates from the best so far, evaluated by the supernet on held-out pairs.

    What was tried is all there is to remember: the best of it are the parents of the next generation.
    """

    eligible_as_best, iterates_batches, time_share = False, False, 0.6

    def __init__(self, name: str, epochs: int, held_out: float) -> None:
        super().__init__(name, epochs, held_out=held_out)
        self.tried: dict[Genome, float] = {}

    def trains(self, parameter: str) -> bool:
        return False

    def after_epoch(self, session: TrainingView[OptEmbed], epoch: int) -> dict[str, Any]:
        started, layer = time.perf_counter(), session.layer
        population = self.generation(layer, session.rng)
        title = f"{self.name} {epoch}/{self.epochs}"
        with progress(title, len(population), "candidates", session.quiet) as task:
            for genome in population:
                layer.set_sides(*genome)
                self.tried[genome] = held_out_score(session, session.layer.config.eval_users)
                best = self.ranked()[0]
                task.advance(1, f"best {self.tried[best]:.4f} with users {best[0]}, items {best[1]}")
        best = self.ranked()[0]
        layer.set_sides(*best)
        left = seconds_left(session, self, epoch, time.perf_counter() - started)
        report = {"best": self.tried[best], "users": best[0], "items": best[1], "trials": len(self.tried)}
        return {"search": {**report, "seconds_left": round(left)}}

    def ranked(self) -> list[Genome]:
        """Return all that was tried, the best first; of equals the smaller, then the earlier."""
        return sorted(self.tried, key=lambda genome: (-self.tried[genome], sum(genome)))

    def generation(self, layer: OptEmbed, rng: np.random.Generator) -> list[Genome]:
        """Return new candidates, fewer only where nothing new is left to try."""
        settings, parents = layer.config, self.ranked()[: layer.config.parents]
        candidates: dict[Genome, None] = {}
        sources = [
            (settings.mutants, self._mutants(parents, layer, rng)),
            (settings.crossovers, self._crossovers(parents, rng)),
            (settings.mutants + settings.crossovers, (layer.draw_sides(rng) for _ in count())),
        ]
        for most, source in sources:
            needed = min(most, settings.mutants + settings.crossovers - len(candidates))
            new = 0
            for _, genome in zip(range(_TRIES), source, strict=False):
                if new == needed:
                    break
                is_new = genome not in self.tried and genome not in candidates
                if is_new and genome[0] <= layer.widest(0, genome[1]):
                    candidates[genome] = None
                    new += 1
        return list(candidates)

    def _mutants(self, parents: list[Genome], layer: OptEmbed, rng: np.random.Generator) -> Iterator[Genome]:
        while parents:
            parent, drawn = parents[rng.integers(len(parents))], layer.draw_sides(rng)
            changed = rng.random(2) < layer.config.mutation
            yield (drawn[0] if changed[0] else parent[0], drawn[1] if changed[1] else parent[1])

    def _crossovers(self, parents: list[Genome], rng: np.random.Generator) -> Iterator[Genome]:
        while len(parents) > 1:
            first, second = rng.choice(len(parents), 2, replace=False)
            yield (parents[first][0], parents[second][1])

    def state(self) -> dict[str, torch.Tensor]:
        return {
            "tried": torch.tensor(list(self.tried), dtype=torch.int64).reshape(-1, 2),
            "scores": torch.tensor(list(self.tried.values()), dtype=torch.float64),
        }

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        genomes = ((int(users), int(items)) for users, items in state["tried"].tolist())
        self.tried = dict(zip(genomes, state["scores"].tolist(), strict=True))


class RetrainSettled(Stage[OptEmbed]):
    """Train the rows and widths of the search from their first values again, on all training pairs."""

    def begin(self, session: TrainingView[OptEmbed]) -> dict[str, Any]:
        layer = session.layer
        layer.settle()
        if not time_is_up(session):  # else the supernet's own values are the best there is
            layer.restart()
            session.new_optimiser()
        users, items = (int(part.max(initial=0)) for part in np.split(layer.entity_sizes(), [layer.num_users]))
        return {"search": {"users": users, "items": items, **_kept(layer)}}

    def trains(self, parameter: str) -> bool:
        return parameter != "layer.thresholds"


def _kept(layer: OptEmbed) -> dict[str, int]:
    users, items = np.split(layer.kept(), [layer.num_users])
    return {"kept_users": int(users.sum()), "kept_items": int(items.sum())}
