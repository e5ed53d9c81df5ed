# SPDX-License-Identifier: Apache-2.0
"""Define AutoEmb's stages: model and controller take turns, then the model goes on with fixed weights and all pairs."""

from __future__ import annotations

import time
from itertools import chain, count
from typing import Any

import torch

from legcf.core.config import TrainingConfig
from legcf.training import checkpoint
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.recipes.asked import seconds_left, time_is_up
from legcf_studies.methods.sized.autoemb import AutoEmb, AutoEmbConfig

_CONTROLLER = "layer.controller."


def stages(settings: AutoEmbConfig, training: TrainingConfig) -> list[Stage[AutoEmb]]:
    search = training.epochs if settings.search_epochs is None else settings.search_epochs
    return [SearchWidths("search", search, held_out=settings.held_out), Settled("train", training.epochs)]


class SearchWidths(Stage[AutoEmb]):
    """Search in first order: a step of the controller on held-out pairs, then steps of the model on the others."""

    eligible_as_best, validated, time_share = False, False, 0.4

    def __init__(self, name: str, epochs: int, held_out: float) -> None:
        super().__init__(name, epochs, held_out=held_out)
        self._remembered: dict[str, torch.Tensor] = {}
        self._optimiser: torch.optim.Optimizer | None = None

    def trains(self, parameter: str) -> bool:
        return not parameter.startswith(_CONTROLLER)

    def before_epoch(self, session: TrainingView[AutoEmb], epoch: int) -> dict[str, Any]:
        assert session.held_out is not None
        self._started = time.perf_counter()
        self._number, self._losses = 0, list[float]()
        held_out = session.sampler_of(session.held_out)
        self._batches = chain.from_iterable(held_out.epoch(session.rng) for _ in count())
        if self._optimiser is None:
            layer = session.layer
            self._optimiser = torch.optim.Adam(layer.controller.parameters(), lr=layer.config.controller_rate)
            if self._remembered:
                checkpoint.restore_optimiser(self._optimiser, self._remembered)
        return {}

    def before_step(self, session: TrainingView[AutoEmb], batch: TrainingBatch) -> None:
        if self._number % session.layer.config.controller_every == 0:
            self._losses.append(self.controller_step(session, next(self._batches)))
        self._number += 1

    def controller_step(self, session: TrainingView[AutoEmb], batch: TrainingBatch) -> float:
        """Learn from pairs that the model does not know; only the controller moves."""
        assert self._optimiser is not None
        parameters = dict(session.model.named_parameters())
        for name, parameter in parameters.items():
            parameter.requires_grad_(not self.trains(name))
        vectors = session.model.encode(torch.from_numpy(batch.entities))
        loss = session.loss_of(vectors, batch)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        for name, parameter in parameters.items():
            parameter.requires_grad_(self.trains(name))
        return loss.item()

    def after_step(self, session: TrainingView[AutoEmb], batch: TrainingBatch) -> None:
        session.layer.remember_weights()

    def after_epoch(self, session: TrainingView[AutoEmb], epoch: int) -> dict[str, Any]:
        left = seconds_left(session, self, epoch, time.perf_counter() - self._started)
        held_out = sum(self._losses) / max(len(self._losses), 1)
        return {"search": {"held_out_loss": held_out, **_shares(session), "seconds_left": round(left)}}

    def state(self) -> dict[str, torch.Tensor]:
        return {} if self._optimiser is None else checkpoint.optimiser_tensors(self._optimiser)

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._remembered = state


class Settled(Stage[AutoEmb]):
    """Train tables and maps on all training pairs, with the weights of candidates fixed."""

    def begin(self, session: TrainingView[AutoEmb]) -> dict[str, Any]:
        layer = session.layer
        layer.settle()
        if not time_is_up(session):
            session.new_optimiser()
            if layer.config.reinitialise:
                layer.fill(session.rng)
        return {"search": _shares(session)}

    def trains(self, parameter: str) -> bool:
        return not parameter.startswith(_CONTROLLER)


@torch.no_grad()
def _shares(session: TrainingView[AutoEmb]) -> dict[str, Any]:
    """Return the mean weight of every candidate width, over users and over items."""
    layer = session.layer
    weights = layer.entity_weights()
    named = (("users", weights[: layer.num_users]), ("items", weights[layer.num_users :]))
    return {
        name: {str(width): round(float(mean), 4) for width, mean in zip(layer.config.widths, side.mean(0), strict=True)}
        for name, side in named
    }
