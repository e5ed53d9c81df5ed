"""A stage of a recipe: a name, how long it may run, and what happens around its epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legcf.training.loop import Session


class Stage:
    """Plain training. A method that does more overrides the hooks; none brings its own loop.

    Hooks return what they have to tell, and it stands in the epoch's line of metrics.jsonl. All state they need must
    live in the layer's buffers, since a resumed run finds nothing else.
    """

    def __init__(self, name: str, epochs: int) -> None:
        self.name, self.epochs = name, epochs

    def before_epoch(self, session: Session) -> dict[str, Any]:
        return {}

    def after_epoch(self, session: Session) -> dict[str, Any]:
        return {}
