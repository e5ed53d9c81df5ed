# SPDX-License-Identifier: Apache-2.0
"""Define a stage of a recipe: how long it may run, what it learns from, what happens around its steps and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from legcf.embeddings.layer import Layer

if TYPE_CHECKING:
    import torch

    from legcf.core.config import MethodConfig, RunConfig, TrainingConfig
    from legcf.data.interactions import Dataset, Interactions
    from legcf.ranking.ranking import Ranking
    from legcf.training.learning.adam import Adam
    from legcf.training.learning.losses import Loss
    from legcf.training.model import GraphModel
    from legcf.training.sampler import Sampler, TrainingBatch

L_co = TypeVar("L_co", bound=Layer[Any], covariant=True)
L = TypeVar("L", bound=Layer[Any], contravariant=True)


class TrainingView(Protocol[L_co]):
    """Declare what a recipe may use of a run under way (`Session` says what its parts do)."""

    model: GraphModel
    dataset: Dataset
    config: RunConfig
    rng: np.random.Generator
    quiet: bool

    pairs: Interactions
    """The training pairs that are learned from: all but those held out."""

    held_out: Interactions | None
    sampler: Sampler
    """Draws batches of these pairs; a stage may assign another."""

    @property
    def layer(self) -> L_co: ...

    @property
    def optimiser(self) -> Adam: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def spent(self) -> float:
        """Return how long the epochs took so far, in seconds of the clock that limits the run."""

    def new_optimiser(self) -> None: ...
    def set_learning_rate(self, done: float) -> None: ...
    def sampler_of(self, pairs: Interactions, *, steps: int | None = None) -> Sampler: ...
    def loss_of(self, vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor: ...
    def ranking(self) -> Ranking: ...
    def validation_score(self) -> float: ...


class Stage(Generic[L]):
    """Train plainly. A method that does more overrides attributes and hooks; none brings its own loop.

    L is the layer that it trains. Hooks around an epoch take its number, 1 for the stage's first. What they return is
    part of the epoch's line in metrics.jsonl; what they return under "search" (best so far, seconds left) is also shown
    on the terminal. What a stage has to remember for a resumed run is in the layer's buffers if it serves the model,
    else in `state`.
    """

    @property
    def supports_distributed(self) -> bool:
        """Return whether ranks can share its steps: hooks of a subclass must then do the same on every rank."""
        return type(self) is Stage

    eligible_as_best: bool = True
    """Whether its weights are candidates for the final model; a search whose result is trained anew says no."""

    most_pairs: int | None = None
    """An epoch ends after so many pairs, drawn at random, however many there are; None: it is a pass over all."""

    iterates_batches: bool = True
    """Whether its epochs are passes over the training pairs. Without, an epoch is what its hooks do (a
    generation of a search, say), and only `epochs`, `time_share` and `finished` end the stage."""

    validated: bool = True
    """Whether validation watches it and may end it; a search with an objective of its own says no."""

    time_share: float = 1.0
    """The share of training.max_minutes that is used up at most when the stage ends."""

    held_out: float = 0.0
    """The share of training pairs kept from graph and sampler, to make choices by.

    They are drawn once per run (`held_out` of the session; what is left are its `pairs`), the same for every stage that
    asks for the same share.
    """

    def __init__(self, name: str, epochs: int, time_share: float | None = None, held_out: float | None = None) -> None:
        self.name, self.epochs = name, epochs
        self.time_share = self.time_share if time_share is None else time_share
        self.held_out = self.held_out if held_out is None else held_out

    def begin(self, session: TrainingView[L]) -> dict[str, Any] | None:
        """Run once, before the first epoch; a resumed run does not come here again."""
        return None

    def trains(self, parameter: str) -> bool:
        """Return whether the parameter of this name (as in the model's state) is learned in this stage."""
        return True

    def finished(self, session: TrainingView[L]) -> bool:
        """Return whether the stage has reached its goal; asked before every epoch and after every step."""
        return False

    def before_epoch(self, session: TrainingView[L], epoch: int) -> dict[str, Any]:
        return {}

    def before_step(self, session: TrainingView[L], batch: TrainingBatch) -> None: ...
    def after_step(self, session: TrainingView[L], batch: TrainingBatch) -> None: ...

    def after_epoch(self, session: TrainingView[L], epoch: int) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, torch.Tensor]:
        """Return what the stage itself has to remember: written with every checkpoint."""
        return {}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `state` returned."""


def single_stage(settings: MethodConfig, training: TrainingConfig) -> list[Stage[Any]]:
    """Return the recipe of most methods: train until validation stops rising."""
    return [Stage("train", training.epochs)]


def closed_form(settings: MethodConfig, training: TrainingConfig) -> list[Stage[Any]]:
    """Return the recipe of methods that are solved when they get their first values: nothing is left to train."""
    return [Stage("solve", 0)]
