"""Who is asked for, in positions, and what somebody's items add to scores."""

from dataclasses import dataclass
from typing import Protocol

from legcf.arrays import FloatArray, Positions
from legcf.data.interactions import Interactions


@dataclass(frozen=True)
class Taste:
    """A request in positions: the user's vector and the items it is known to have."""

    vector: FloatArray
    history: Positions


class ServedTerm(Protocol):
    """What someone's items add to scores."""

    def term(self, items: Positions) -> FloatArray:
        """To the score of every item."""

    def add_to(self, scores: FloatArray, items: Positions) -> None:
        """The same, added to scores that are there."""

    def parts(self, items: Positions, targets: Positions) -> FloatArray:
        """Each item to the score of each target."""

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """For many at once; compiled."""
