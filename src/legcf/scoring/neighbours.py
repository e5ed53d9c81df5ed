# SPDX-License-Identifier: Apache-2.0
"""What a user's neighbours took, from the histories of a file: the term of `legcf.ranking.neighbours`. Numpy only.

The pairs are kept unpacked in both directions, for a request walks along thousands of them: 8 bytes a pair, and 12
bytes a user and an item.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from legcf.core.arrays import FloatArray, Positions, inverse_power
from legcf.data.interactions import Interactions
from legcf.modelfile.histories import PackedHistories

if TYPE_CHECKING:
    from legcf.ranking.neighbours import Neighbours


@dataclass(frozen=True, eq=False)
class HistoryNeighbours:
    """Adds to the scores of anybody whose items are known: a user of the histories, or someone they do not have."""

    by_user: Interactions
    by_item: Interactions
    scale: float

    @classmethod
    def of(cls, history: PackedHistories, scale: float) -> "HistoryNeighbours":
        by_user = history.all()
        return cls(by_user, by_user.transposed(), scale)

    def term(self, items: Positions, relative: FloatArray | None = None) -> FloatArray:
        """What is added to the score of every item, for someone with these items (each once).

        Neighbours are those who share items, whatever the items count.
        """
        holders = self.by_item.of_users(items)
        weights = np.repeat(self._item_scale[items], holders.user_degrees)
        shared = np.bincount(holders.items, weights, self.by_user.num_users)
        met = np.flatnonzero(shared)
        taken = self.by_user.of_users(met)
        weights = np.repeat(shared[met] * self._user_scale[met], taken.user_degrees)
        reached = np.bincount(taken.items, weights, self.by_item.num_users)
        term: FloatArray = (self._own(items) * self._item_scale * reached).astype(np.float32)
        return term

    def add_to(self, scores: FloatArray, items: Positions, relative: FloatArray | None = None) -> None:
        scores += self.term(items)

    def parts(self, items: Positions, targets: Positions, relative: FloatArray | None = None) -> FloatArray:
        """What each of someone's items adds to the score of each target (items × targets); columns sum up to `term`."""
        holders = self.by_item.of_users(items)
        item_of = np.repeat(np.arange(len(items)), holders.user_degrees)
        parts = np.empty((len(items), len(targets)), dtype=np.float32)
        for place, target in enumerate(targets.tolist()):
            weights = np.zeros(self.by_user.num_users, dtype=np.float32)
            both = self.by_item.of(target)
            weights[both] = self._user_scale[both]
            parts[:, place] = np.bincount(item_of, weights[holders.items], len(items))
        parts *= np.float32(self._own(items)) * self._item_scale[items, None] * self._item_scale[targets]
        return parts

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """`term` for many at once, a row of `scores` each. Compiled: needs numba."""
        self._compiled.add_for(scores, histories)

    @cached_property
    def _compiled(self) -> "Neighbours":
        from legcf.ranking.neighbours import Neighbours

        return Neighbours(self.by_user, self.by_item, self.scale)

    def _own(self, items: Positions) -> float:
        return self.scale / float(np.sqrt(max(len(items), 1)))

    @cached_property
    def _item_scale(self) -> FloatArray:
        return inverse_power(self.by_item.user_degrees, 0.5).astype(np.float32)

    @cached_property
    def _user_scale(self) -> FloatArray:
        return inverse_power(self.by_user.user_degrees, 1.0).astype(np.float32)
