# SPDX-License-Identifier: Apache-2.0
"""Who is asked for, in positions, and what somebody's items add to scores."""

from dataclasses import dataclass
from typing import Protocol

from legcf.core.arrays import FloatArray, Positions
from legcf.data.interactions import Interactions


@dataclass(frozen=True)
class UserProfile:
    """A request in positions: the user's vector and the items it is known to have."""

    vector: FloatArray
    history: Positions
    relative: FloatArray | None = None
    """How much each of these items counts, in units of their mean; None where all count alike."""


class ServedTerm(Protocol):
    """What someone's items add to scores."""

    def term(self, items: Positions, relative: FloatArray | None = None) -> FloatArray:
        """To the score of every item; items count alike, or so much each."""

    def add_to(self, scores: FloatArray, items: Positions, relative: FloatArray | None = None) -> None:
        """The same, added to scores that are there."""

    def parts(self, items: Positions, targets: Positions, relative: FloatArray | None = None) -> FloatArray:
        """Each item to the score of each target."""

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """For many at once; compiled."""
