"""What a user's neighbours took, from the histories of a file: the term of `legcf.graph.neighbours`. Numpy only.

The pairs are kept unpacked in both directions, for a request walks along thousands of them: 8 bytes a pair, and 12
bytes a user and an item.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legcf.serving.history import History, Lists
from legcf.serving.rows import FloatArray, Positions

if TYPE_CHECKING:
    from legcf.graph.neighbours import Neighbours


@dataclass(frozen=True, eq=False)
class HistoryNeighbours:
    """Adds to the scores of anybody whose items are known: a user of the histories, or someone they do not have."""

    by_user: Lists
    by_item: Lists
    scale: float

    @classmethod
    def of(cls, history: History, scale: float) -> "HistoryNeighbours":
        by_user, num_users = history.all(), len(history)
        keys = by_user.items.astype(np.int64)
        counts = np.bincount(keys, minlength=history.num_items)
        keys *= num_users
        keys += np.repeat(np.arange(num_users), by_user.lengths)
        keys.sort()
        keys %= num_users
        return cls(by_user, Lists(np.concatenate([[0], np.cumsum(counts)]), keys.astype(np.int32)), scale)

    def term(self, items: Positions) -> FloatArray:
        """What is added to the score of every item, for someone with these items (each once)."""
        holders = self.by_item.several(items)
        weights = np.repeat(self._item_scale[items], holders.lengths)
        shared = np.bincount(holders.items, weights, len(self.by_user))
        met = np.flatnonzero(shared)
        taken = self.by_user.several(met)
        weights = np.repeat(shared[met] * self._user_scale[met], taken.lengths)
        reached = np.bincount(taken.items, weights, len(self.by_item))
        term: FloatArray = (self._own(items) * self._item_scale * reached).astype(np.float32)
        return term

    def parts(self, items: Positions, targets: Positions) -> FloatArray:
        """What each of someone's items adds to the score of each target (items × targets); columns sum up to `term`."""
        holders = self.by_item.several(items)
        item_of = np.repeat(np.arange(len(items)), holders.lengths)
        parts = np.empty((len(items), len(targets)), dtype=np.float32)
        for place, target in enumerate(targets.tolist()):
            weights = np.zeros(len(self.by_user), dtype=np.float32)
            both = self.by_item.of(target)
            weights[both] = self._user_scale[both]
            parts[:, place] = np.bincount(item_of, weights[holders.items], len(items))
        parts *= np.float32(self._own(items)) * self._item_scale[items, None] * self._item_scale[targets]
        return parts

    def add_for(self, scores: FloatArray, histories: Lists) -> None:
        """`term` for many at once, a row of `scores` each. Compiled: needs numba."""
        from legcf.data.interactions import Interactions

        items = histories.items.astype(np.int32, copy=False)
        self._compiled.add_for(scores, Interactions(histories.indptr.astype(np.int64), items, len(self.by_item)))

    @cached_property
    def _compiled(self) -> "Neighbours":
        from legcf.data.interactions import Interactions
        from legcf.graph.neighbours import Neighbours

        users, items = len(self.by_user), len(self.by_item)
        train, by_item = (
            Interactions(lists.indptr.astype(np.int64), lists.items.astype(np.int32, copy=False), others)
            for lists, others in ((self.by_user, items), (self.by_item, users))
        )
        return Neighbours(train, by_item, self.scale)

    def _own(self, items: Positions) -> float:
        return self.scale / float(np.sqrt(max(len(items), 1)))

    @cached_property
    def _item_scale(self) -> FloatArray:
        return _inverse(np.sqrt(self.by_item.lengths))

    @cached_property
    def _user_scale(self) -> FloatArray:
        return _inverse(self.by_user.lengths)


def _inverse(values: NDArray[np.integer] | NDArray[np.floating]) -> FloatArray:
    """1 / value, and 0 for those without any pair."""
    inverse: FloatArray = np.where(values > 0, 1 / np.maximum(values, 1), 0).astype(np.float32)
    return inverse
