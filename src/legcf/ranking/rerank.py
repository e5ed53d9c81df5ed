# SPDX-License-Identifier: Apache-2.0
"""Rank the same vectors again and again with other item lists beside them, without all of their products each time.

Lists move few items: those that the items of a user speak for. All others stay in the order of their products. So who
has the best of the products at hand needs the products of what lists move, and no others. The result is that of
`topk.rank` up to rounding.
"""

from dataclasses import dataclass, replace

import numpy as np

from legcf.core.arrays import Positions
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.ranking.topk_numba import move_items
from legcf.ranking.topk_numpy import TopK, empty_top_k

# Both decide speed alone.
_KEPT = 192  # best items of a user by products alone; whose best are all moved is ranked as usual
_MOVED_PART = 8  # an eighth of the items may be moved, at most, for a user of usual activity


@dataclass(frozen=True, eq=False)
class _Best:
    """Keep the first items of some users by products alone, best first, without what they have seen."""

    ranking: Ranking
    users: Positions
    seen: Interactions
    k: int
    top: TopK | None = None
    """None until the same is asked for once more: a ranking that comes but once has no use for it."""

    def fits(self, ranking: Ranking, k: int, users: Positions, seen: Interactions) -> bool:
        same = self.ranking.users is ranking.users and self.ranking.items is ranking.items
        return same and self.seen is seen and k <= self.k and np.array_equal(self.users, users)


class Reranker:
    """Rank as `topk.rank` does; faster from the third time on that only lists differ."""

    def __init__(self) -> None:
        self._best: _Best | None = None

    def __call__(
        self, ranking: Ranking, k: int, users: Positions | None = None, seen: Interactions | None = None
    ) -> TopK:
        if seen is None or ranking.bias is not None or not _moves_little(ranking):
            return rank(ranking, k, users, seen)
        assert ranking.lists is not None
        asked_users = np.arange(ranking.num_users) if users is None else np.asarray(users)
        if self._best is None or not self._best.fits(ranking, k, asked_users, seen):
            self._best = _Best(ranking, asked_users, seen, k)
            return rank(ranking, k, users, seen)
        if self._best.top is None:
            self._best = replace(self._best, top=rank(replace(ranking, lists=None), max(k, _KEPT), asked_users, seen))
        assert self._best.top is not None
        return _moved(ranking, ranking.lists, k, asked_users, seen, self._best.top)


def _moves_little(ranking: Ranking) -> bool:
    """Say whether lists are short enough, and items many enough, for most to stay where they are."""
    if ranking.lists is None:
        return False
    reached = ranking.histories.num_pairs / max(ranking.num_users, 1) * ranking.lists.num_entries
    return reached * _MOVED_PART < ranking.num_items**2


def _moved(ranking: Ranking, lists: ItemLists, k: int, users: Positions, seen: Interactions, best: TopK) -> TopK:
    ranked, scores = empty_top_k(len(users), min(k, ranking.num_items))
    histories, hidden = ranking.histories.of_users(users), seen.of_users(users)
    complete = move_items(ranking.users[users], ranking.items, lists, histories, hidden, best, (ranked, scores))
    others = np.flatnonzero(~complete)
    if len(others):
        ranked[others], scores[others] = rank(ranking, k, users[others], seen)
    return ranked, scores
