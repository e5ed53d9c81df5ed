"""AutoEmb's stages: model and controller take turns, then the model goes on with fixed weights and all pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import torch

from legcf.configuration import RunConfig
from legcf.embeddings.autoemb import AutoEmb, AutoEmbConfig
from legcf.training import checkpoint
from legcf.training.loop import Session
from legcf.training.recipes.search import seconds_left, time_is_up
from legcf.training.sampler import Batch, Sampler
from legcf.training.stage import Stage

_CONTROLLER = "layer.controller."


def stages(config: RunConfig) -> list[Stage]:
    settings: AutoEmbConfig = config.method
    epochs = config.training.epochs
    search = epochs if settings.search_epochs is None else settings.search_epochs
    return [Search("search", search, settings), Settled("train", epochs, settings)]


class Search(Stage):
    """First order: a step of the controller on held-out pairs, then steps of the model on the others."""

    counts, validated, until = False, False, 0.4

    def __init__(self, name: str, epochs: int, settings: AutoEmbConfig) -> None:
        super().__init__(name, epochs)
        self._settings = settings
        self.held_out = settings.held_out
        self._remembered: dict[str, torch.Tensor] = {}
        self._optimiser: torch.optim.Optimizer | None = None

    def trains(self, parameter: str) -> bool:
        return not parameter.startswith(_CONTROLLER)

    def before_epoch(self, session: Session) -> dict[str, Any]:
        assert session.held_out is not None
        self._started = time.perf_counter()
        self._number, self._losses = 0, list[float]()
        self._batches = _endless(session.sampler_of(session.held_out), session)
        if self._optimiser is None:
            controller = cast(AutoEmb, session.model.layer).controller
            self._optimiser = torch.optim.Adam(controller.parameters(), lr=self._settings.controller_rate)
            checkpoint.restore_optimiser(self._optimiser, self._remembered)
        return {}

    def before_step(self, session: Session, batch: Batch) -> None:
        if self._number % self._settings.controller_every == 0:
            self._losses.append(self.controller_step(session, next(self._batches)))
        self._number += 1

    def controller_step(self, session: Session, batch: Batch) -> float:
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

    def after_step(self, session: Session, batch: Batch) -> None:
        cast(AutoEmb, session.model.layer).remember_weights()

    def after_epoch(self, session: Session) -> dict[str, Any]:
        left = seconds_left(session, self, time.perf_counter() - self._started)
        held_out = sum(self._losses) / max(len(self._losses), 1)
        return {"search": {"held_out_loss": held_out, **_shares(session), "seconds_left": round(left)}}

    def state(self) -> dict[str, torch.Tensor]:
        return {} if self._optimiser is None else checkpoint.optimiser_tensors(self._optimiser)

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._remembered = state


class Settled(Stage):
    """Weights of candidates stand; tables and maps learn on with all training pairs."""

    def __init__(self, name: str, epochs: int, settings: AutoEmbConfig) -> None:
        super().__init__(name, epochs)
        self._settings = settings

    def begin(self, session: Session) -> dict[str, Any]:
        layer = cast(AutoEmb, session.model.layer)
        layer.settle()
        if not time_is_up(session):
            session.new_optimiser()
            if self._settings.afresh:
                layer.fill(session.rng)
        return {"search": _shares(session)}

    def trains(self, parameter: str) -> bool:
        return not parameter.startswith(_CONTROLLER)


def _endless(sampler: Sampler, session: Session) -> Iterator[Batch]:
    while True:
        yield from sampler.epoch(session.rng)


@torch.no_grad()
def _shares(session: Session) -> dict[str, Any]:
    """The mean weight of every candidate width, over users and over items."""
    layer = cast(AutoEmb, session.model.layer)
    weights = layer.entity_weights()
    named = (("users", weights[: layer.num_users]), ("items", weights[layer.num_users :]))
    return {
        name: {
            str(width): round(float(mean), 4) for width, mean in zip(layer.settings.widths, side.mean(0), strict=True)
        }
        for name, side in named
    }
