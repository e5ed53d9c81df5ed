# SPDX-License-Identifier: Apache-2.0
"""What a user's neighbours took: three hops from the user along the training pairs, nothing stored but those pairs.

F_ui = d_u^-½ d_i^-½ · Σ_{j ∈ N(u)} d_j^-½ Σ_{v ∈ N(j) ∩ N(i)} d_v^-1

is a linear filter of the graph in the sense of Shen et al. ("How Powerful is Graph Convolution for Recommendation?",
CIKM 2021): what LightGCN would make of one-hot rows, but for d_j^-½ where that has d_j^-1 (docs/study.md). A codebook
shares its vectors among many items and so loses what is particular to a few; this term has just that.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, inverse_power
from legcf.core.jit import get_num_threads, njit, prange
from legcf.data.interactions import Interactions
from legcf.graph.propagate import Operator
from legcf.ranking.ranking import Ranking

_SAMPLE = 1000  # users that tell how large the term's values are
_BLOCK_BYTES = 32 * 2**20
_WALKS_UP_TO = 0.5  # of all pairs passed for a user; beyond, two products with the whole graph are faster
_TOGETHER = 64  # users a product is made for


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Adds its share to the scores of users against all items, as it weighs beside a model's own (`weighing`)."""

    train: Interactions
    by_item: Interactions
    scale: float = 1.0
    weight: float = 1.0

    @classmethod
    def of(cls, train: Interactions) -> "Neighbours":
        return cls(train, train.transposed())

    def weighing(self, weight: float, ranking: Ranking) -> "Neighbours":
        """So that the term's values spread `weight` times as far as the inner products of the ranking's vectors."""
        spread = self.spread
        scale = weight * product_spread(ranking.users, ranking.items) / spread if spread > 0 else 0.0
        return replace(self, scale=scale, weight=weight)

    def with_histories(self, histories: Interactions) -> "Neighbours":
        """Whatever is known is a way to walk."""
        return Neighbours(histories, histories.transposed(), self.scale, self.weight)

    def num_params(self) -> int:
        return 1

    def storage_bytes(self) -> int:
        """One weight; the pairs are the graph's."""
        return 4

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """Add the term to the rows of `scores`: for anybody whose items are known, also for users that are new."""
        item_scale, user_scale = self._scales
        own = (self.scale * inverse_power(histories.user_degrees, 0.5)).astype(np.float32)
        train, by_item = self.train, self.by_item
        if self._pairs_passed(histories) > _WALKS_UP_TO * train.num_pairs:
            self._add_by_products(scores, own, histories)
            return
        _add(
            scores, own, histories.indptr, histories.items, by_item.indptr, by_item.items, train.indptr, train.items,
            item_scale, user_scale, get_num_threads(),
        )  # fmt: skip

    def _pairs_passed(self, histories: Interactions) -> float:
        """How many pairs a walk from one of these histories passes on average, at most."""
        passed = np.bincount(histories.users(), self._reach[histories.items], minlength=max(histories.num_users, 1))
        return float(np.minimum(passed, self.train.num_pairs).mean())

    @cached_property
    def _reach(self) -> NDArray[np.float64]:
        """Pairs of all users that have an item."""
        train = self.train
        counts = np.repeat(train.user_degrees, train.user_degrees)
        return np.bincount(train.items, counts, minlength=train.num_items).astype(np.float64)

    @cached_property
    def _hops(self) -> tuple[Operator, Operator]:
        """From items to their users, and from users to their items."""
        return Operator(self.train.to_scipy(), symmetric=False), Operator(self.by_item.to_scipy(), symmetric=False)

    def _add_by_products(self, scores: FloatArray, own: FloatArray, histories: Interactions) -> None:
        """For dense data, where a walk would pass nearly every pair: many users along each pair at once."""
        item_scale, user_scale = self._scales
        to_users, to_items = self._hops
        for start in range(0, histories.num_users, _TOGETHER):
            stop = min(start + _TOGETHER, histories.num_users)
            first, last = histories.indptr[start], histories.indptr[stop]
            items = histories.items[first:last]
            begun = np.zeros((self.train.num_items, stop - start), dtype=np.float32)
            begun[items, np.repeat(np.arange(stop - start), histories.user_degrees[start:stop])] = item_scale[items]
            met = to_users.times(begun)
            met *= user_scale[:, None]
            reached = to_items.times(met)
            reached *= item_scale[:, None]
            scores[start:stop] += own[start:stop, None] * reached.T

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the unscaled term over all items and a thousand users, evenly chosen."""
        train = self.train
        users = np.unique(np.linspace(0, train.num_users - 1, min(_SAMPLE, train.num_users)).astype(np.int64))
        plain = Neighbours(train, self.by_item)
        rows = max(1, _BLOCK_BYTES // (4 * max(train.num_items, 1)))
        total, squares = 0.0, 0.0
        for start in range(0, len(users), rows):
            block = users[start : start + rows]
            scores = np.zeros((len(block), train.num_items), dtype=np.float32)
            plain.add_for(scores, train.of_users(block))
            total += float(scores.sum(dtype=np.float64))
            squares += float(np.square(scores).sum(dtype=np.float64))
        count = max(len(users) * train.num_items, 1)
        return float(np.sqrt(max(squares / count - (total / count) ** 2, 0.0)))

    @cached_property
    def _scales(self) -> tuple[FloatArray, FloatArray]:
        train = self.train
        item, user = inverse_power(train.item_degrees, 0.5), inverse_power(train.user_degrees, 1.0)
        return item.astype(np.float32), user.astype(np.float32)


def product_spread(user_vectors: FloatArray, item_vectors: FloatArray) -> float:
    """Standard deviation of all inner products of users and items, from two d × d matrices."""
    users, items = user_vectors.astype(np.float64), item_vectors.astype(np.float64)
    if not len(users) or not len(items):
        return 0.0
    square = float(np.sum((users.T @ users / len(users)) * (items.T @ items / len(items))))
    mean = float(users.mean(axis=0) @ items.mean(axis=0))
    return float(np.sqrt(max(square - mean**2, 0.0)))


@njit(cache=True, parallel=True)
def _add(  # type: ignore[no-untyped-def]
    scores, own, indptr, items, item_indptr, item_users, user_indptr, user_items, item_scale, user_scale, threads
):
    """Hop by hop for each row: its items, their users (each once, with all it has in common), the items of those."""
    rows, num_items = scores.shape
    chunks = min(threads * 8, rows)
    for chunk in prange(chunks):
        shared = np.zeros(len(user_scale), dtype=np.float32)
        met = np.empty(len(user_scale), dtype=np.int32)
        reached = np.zeros(num_items, dtype=np.float32)
        for row in range(rows * chunk // chunks, rows * (chunk + 1) // chunks):
            count = 0
            for place in range(indptr[row], indptr[row + 1]):
                item = items[place]
                for other in item_users[item_indptr[item] : item_indptr[item + 1]]:
                    if shared[other] == 0:
                        met[count] = other
                        count += 1
                    shared[other] += item_scale[item]
            for other in met[:count]:
                share = shared[other] * user_scale[other]
                shared[other] = 0
                for item in user_items[user_indptr[other] : user_indptr[other + 1]]:
                    reached[item] += share
            factor = own[row]
            for item in range(num_items):
                scores[row, item] += factor * item_scale[item] * reached[item]
                reached[item] = 0
