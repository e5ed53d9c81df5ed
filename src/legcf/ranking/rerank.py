# SPDX-License-Identifier: Apache-2.0
"""The same vectors ranked again and again with other item lists beside them, without all of their products each time.

Lists move few items: those that the items of a user speak for. All others stay in the order of their products. So who
has the best of the products at hand needs the products of what lists move, and no others. The result is that of
`topk.rank` up to rounding.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.core.jit import get_num_threads, njit, prange
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank

_KEPT = 192  # of the best by products alone; whose best are all moved is ranked as usual
_MOVED_PART = 8  # of the items, at most, for a user of usual activity
_CHUNKS_PER_THREAD = 8


@dataclass(frozen=True, eq=False)
class _Best:
    """The first items of some users by products alone, best first, without what they have seen."""

    ranking: Ranking
    users: Positions
    seen: Interactions
    k: int
    found: tuple[IntArray, FloatArray] | None = None
    """None until the same is asked for once more: a ranking that comes but once has no use for it."""

    def suits(self, ranking: Ranking, k: int, users: Positions, seen: Interactions) -> bool:
        same = self.ranking.users is ranking.users and self.ranking.items is ranking.items
        return same and self.seen is seen and k <= self.k and np.array_equal(self.users, users)


class Reranker:
    """Ranks as `topk.rank` does; faster from the third time on that only lists differ."""

    def __init__(self) -> None:
        self._best: _Best | None = None

    def __call__(
        self, ranking: Ranking, k: int, users: Positions | None = None, seen: Interactions | None = None
    ) -> tuple[IntArray, FloatArray]:
        if seen is None or ranking.bias is not None or not _moves_little(ranking):
            return rank(ranking, k, users, seen)
        assert ranking.lists is not None
        chosen = np.arange(ranking.num_users) if users is None else np.asarray(users)
        if self._best is None or not self._best.suits(ranking, k, chosen, seen):
            self._best = _Best(ranking, chosen, seen, k)
            return rank(ranking, k, users, seen)
        if self._best.found is None:
            found = rank(replace(ranking, lists=None), max(k, _KEPT), chosen, seen)
            self._best = replace(self._best, found=found)
        assert self._best.found is not None
        return _moved(ranking, ranking.lists, k, chosen, seen, self._best.found)


def _moves_little(ranking: Ranking) -> bool:
    """Whether lists are short enough, and items many enough, for most to stay where they are."""
    if ranking.lists is None:
        return False
    reached = ranking.histories.num_pairs / max(ranking.num_users, 1) * ranking.lists.num_entries
    return reached * _MOVED_PART < ranking.num_items**2


def _moved(
    ranking: Ranking,
    lists: ItemLists,
    k: int,
    users: Positions,
    seen: Interactions,
    best: tuple[IntArray, FloatArray],
) -> tuple[IntArray, FloatArray]:
    histories, hidden = ranking.histories.of_users(users), seen.of_users(users)
    relative = histories.relative_weights
    k = min(k, ranking.num_items)
    ranked = np.full((len(users), k), -1, dtype=np.int32)
    scores = np.full((len(users), k), -np.inf, dtype=np.float32)
    vectors: FloatArray = ranking.users[users]
    complete: NDArray[np.bool_] = np.any(vectors != 0, axis=1)
    _merge(
        vectors, ranking.items, lists.user_scales(histories), histories.indptr, histories.items,
        np.empty(0, dtype=np.float32) if relative is None else relative,
        hidden.indptr, hidden.items, lists.pairs.indptr, lists.pairs.items, lists.weights,
        *best, ranked, scores, complete, max(1, min(len(users), get_num_threads() * _CHUNKS_PER_THREAD)),
    )  # fmt: skip
    others = np.flatnonzero(~complete)
    if len(others):
        ranked[others], scores[others] = rank(ranking, k, users[others], seen)
    return ranked, scores


@njit(cache=True)
def _insert(item, score, items, scores):  # type: ignore[no-untyped-def]
    """Keep the best, in order; ties to the lower item."""
    slot = len(items) - 1
    if slot < 0 or score < scores[slot] or (score == scores[slot] and items[slot] >= 0 and items[slot] < item):
        return
    while slot > 0 and (scores[slot - 1] < score or (scores[slot - 1] == score and items[slot - 1] > item)):
        scores[slot], items[slot] = scores[slot - 1], items[slot - 1]
        slot -= 1
    scores[slot], items[slot] = score, item


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract"})
def _merge(  # type: ignore[no-untyped-def]
    vectors, items, scales, indptr, history, relative, seen_indptr, seen, list_indptr, list_items, list_weights,
    best_items, best_scores, ranked, scores, complete, chunks,
):  # fmt: skip
    """What lists move, by its own products, and the best of the rest; not `complete` where that may not be all."""
    num_items, width = items.shape
    k = ranked.shape[1]
    for chunk in prange(chunks):
        added = np.zeros(num_items, dtype=np.float32)
        state = np.zeros(num_items, dtype=np.int8)  # 1 where it is moved, 2 where it has been seen
        moved = np.empty(num_items, dtype=np.int32)
        for row in range(chunk, len(vectors), chunks):
            if not complete[row]:
                continue
            first, last = seen_indptr[row], seen_indptr[row + 1]
            for place in range(first, last):
                state[seen[place]] = 2
            size = 0
            for place in range(indptr[row], indptr[row + 1]):
                factor = scales[row] * relative[place] if len(relative) else scales[row]
                own = history[place]
                for at in range(list_indptr[own], list_indptr[own + 1]):
                    item = list_items[at]
                    if state[item] == 0:
                        state[item] = 1
                        moved[size] = item
                        size += 1
                    added[item] += factor * list_weights[at]
            user = vectors[row]
            for number in range(size):
                item = moved[number]
                product = np.float32(0)
                for column in range(width):
                    product += user[column] * items[item, column]
                _insert(item, product + added[item], ranked[row], scores[row])
            left = 0
            for place in range(best_items.shape[1]):
                item = best_items[row, place]
                if item < 0 or left == k:
                    left = k  # there are no more items, or no more can be among the first k
                    break
                if state[item] == 0:
                    _insert(item, best_scores[row, place], ranked[row], scores[row])
                    left += 1
            complete[row] = left == k or best_items.shape[1] == num_items
            if not complete[row]:
                ranked[row], scores[row] = -1, -np.inf
            for place in range(indptr[row], indptr[row + 1]):
                own = history[place]
                for at in range(list_indptr[own], list_indptr[own + 1]):
                    added[list_items[at]] = 0
            for number in range(size):
                state[moved[number]] = 0
            for place in range(first, last):
                state[seen[place]] = 0
