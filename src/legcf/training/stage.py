"""A stage of a recipe: how long it may run, what it learns from, and what happens around its steps and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from legcf.training.loop import Session
    from legcf.training.sampler import Batch


class Stage:
    """Plain training. A method that does more overrides attributes and hooks; none brings its own loop.

    Hooks around an epoch return what they have to tell, and it stands in the epoch's line of metrics.jsonl; what they
    tell under "search" (best so far, seconds left) is shown as well. What a stage has to remember for a resumed run
    lives in the layer's buffers if it serves the model, else in `state`.
    """

    counts: bool = True
    """Whether its weights are candidates for the final model; a search whose result is trained anew says no."""

    steps: bool = True
    """Whether its epochs are passes over the training pairs. Without, an epoch is what its hooks do (a
    generation of a search, say), and only `epochs`, `until` and `finished` end the stage."""

    validated: bool = True
    """Whether validation watches it and may end it; a search that has a judge of its own says no."""

    until: float = 1.0
    """The share of training.max_minutes that is used up at most when the stage ends."""

    held_out: float = 0.0
    """The share of training pairs kept from graph and sampler, for choices that training pairs must not judge.

    They are drawn once a run (`Session.held_out`; what is left are `Session.pairs`), the same for every stage that asks
    for the same share.
    """

    def __init__(self, name: str, epochs: int) -> None:
        self.name, self.epochs = name, epochs

    def begin(self, session: Session) -> dict[str, Any] | None:
        """Once, before the first epoch; a resumed run does not come here again."""
        return None

    def trains(self, parameter: str) -> bool:
        """Whether the parameter of this name (as in the model's state) is learned in this stage."""
        return True

    def finished(self, session: Session) -> bool:
        """Asked before every epoch and after every step: whether the stage has what it wanted."""
        return False

    def before_epoch(self, session: Session) -> dict[str, Any]:
        return {}

    def before_step(self, session: Session, batch: Batch) -> None:
        pass

    def after_step(self, session: Session, batch: Batch) -> None:
        pass

    def after_epoch(self, session: Session) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, torch.Tensor]:
        """What the stage itself has to remember: written with every checkpoint."""
        return {}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `state` gave."""
