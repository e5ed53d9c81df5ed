# SPDX-License-Identifier: Apache-2.0
"""Order items by scores that are the same in every reader of a file, to the last bit. Numpy only.

- Numbers are float32, and each product and each sum is rounded, except in 2 and 3.
- 1: a user that is pooled is Σ weight of the item · how much it counts · its vector, over the history in ascending
  order, times the user's weight. An item's vector is Σ weight · meta-embedding, in the order of its code.
- 2: the product of two vectors is made in float64, where its terms are exact: four sums of every fourth term, the terms
  beyond the last whole four in the first of them, (first + second) + (third + fourth), rounded once. Of a code it is
  Σ weight · product with the meta-embedding.
- 3: for a table in few bits the vector is first rounded to what 2^24 times its largest number resolves in float64. Then
  all sums of number · (value − middle value) are exact in any order. The sum is rounded, times (step · scale).
- To the product come the bias and then, item after item of the history, the user's factor · (weight in its list · how
  much it counts).
- Items go by their scores; equals by their number, the lower first.

Python sums scores of all items in an order that a library chooses, which is fast. Two of these say which item comes
first where they are further apart than rounding can move them; where they are not, both are made again as above.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray, Positions
from legcf.data.interactions import Interactions
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.topk_numpy import TopK
from legcf.scoring.foldin import UserProfile
from legcf.scoring.rules import Best

# These three decide speed and memory alone.
SPARE = 2  # items found beyond those that are asked for: of these one tells whether the last is settled
_GROWTH = 4  # times as many are looked at where so many are too near
_TOGETHER = 1024  # scores made again at once: their terms take a megabyte

_ROUNDING = 2.0**-24  # of a float32 number, which is off by no more

_Numbers = Any  # one, or an array of one for each user
Exact = Callable[[Positions, Positions], FloatArray]
"""Give the prescribed scores of some items, each for the user of a row."""


class ItemOrder:
    """Order the items of a model's users."""

    def __init__(self, model: ServedModel) -> None:
        rows, lists = model.item_rows, model.lists
        self._model = model
        self._reach = rows.reach
        self._furthest = float(self._reach.max(initial=0.0))
        self._steps = rows.width + 2 * (1 if rows.codes is None else rows.codes.columns.shape[1]) + 4
        self._bias = 0.0 if model.item_bias is None else float(np.abs(model.item_bias).max(initial=0.0))
        self._taken = 0.0  # from a score at most, by lists of items that all count alike
        self._speakers = np.zeros(len(rows), dtype=np.int32)  # items in whose lists an item is
        if lists is not None:
            below = np.bincount(lists.pairs.items, np.maximum(-lists.weights, 0.0))
            self._taken, self._speakers = float(below.max(initial=0.0)), lists.pairs.item_degrees.astype(np.int32)

    def best(self, profile: UserProfile, find: Callable[[int], Best], count: int) -> Best:
        """Return the best `count` items of one user, where `find` finds as many as it is asked for by their scores."""
        vector, known, size = profile.vector, len(profile.history), count + SPARE
        length = float(vector.dot(vector)) ** 0.5
        if not length:  # nothing is rounded in an order of its own
            return find(count)
        while True:
            items, scores = find(size)
            if len(items) < 2:
                return items[:count], scores[:count]
            size_of_sums = self._largest(abs(float(scores[0])), known, profile.relative is not None)
            furthest = self._off(self._furthest * length, known, size_of_sums)
            nearest = (scores[:-1] - scores[1:]).min()
            if nearest > 2 * furthest:
                return items[:count], scores[:count]
            off = self._off(self._reach[items] * length, np.minimum(self._speakers[items], known), size_of_sums)
            if len(items) == size and scores[-1] + furthest >= scores[count - 1] - off.max():
                size *= _GROWTH
                continue
            if nearest <= 2 * off.max():
                _settle(items[None], scores[None], off[None], count, partial(self._of_one, profile))
            return items[:count], scores[:count]

    def settle_all(self, best: TopK, k: int, vectors: FloatArray, histories: Interactions) -> Positions:
        """Put the first k items of many users in order, in place, where `best` holds `SPARE` more. Needs numba.

        Returns the users in whose first k there may be others.
        """
        from legcf.ranking.item_lists.lists_numba import add_to_pairs
        from legcf.ranking.topk_numba import code_products, find_near

        items, scores = best
        rows, lists, known = self._model.item_rows, self._model.lists, histories.user_degrees
        lengths = np.sqrt(np.einsum("ux,ux->u", vectors, vectors))
        largest = self._largest(np.abs(scores[:, 0]), known, histories.weights is not None)
        furthest = self._off(self._furthest * lengths, known, largest)
        users = lengths, known, largest, furthest
        near, unsure = find_near(best, k, self._reach, self._speakers, users, self._steps)
        some_items, some_scores = items[near], scores[near]
        products, added = self._reach[some_items] * lengths[near, None], self._speakers[some_items]
        off = self._off(products, np.minimum(added, known[near, None]), largest[near, None])

        def exact(asked: Positions, which: Positions) -> FloatArray:
            asked = near[asked]
            if rows.codes is not None:
                made = self._with_bias(code_products(rows.codes, vectors, asked, which), which)
            else:
                made = self._with_bias(rows.products(vectors[asked], which), which)
            if lists is not None:
                add_to_pairs(made, asked, which, lists, histories)
            return made

        _settle(some_items, some_scores, off, k, exact)
        items[near], scores[near] = some_items, some_scores
        return unsure

    def _of_one(self, profile: UserProfile, asked: Positions, which: Positions) -> FloatArray:
        vectors = np.broadcast_to(profile.vector, (len(which), len(profile.vector)))
        made = self._with_bias(self._model.item_rows.products(vectors, which), which)
        if self._model.lists is not None:
            self._model.lists.add_to_some(made, which, profile.history, profile.relative)
        return made

    def _with_bias(self, products: FloatArray, which: Positions) -> FloatArray:
        bias = self._model.item_bias
        return products if bias is None else products + bias[which]

    def _largest(self, highest: _Numbers, known: _Numbers, is_weighed: bool) -> _Numbers:
        """Return how large a sum can be on the way to a user's scores, the product of vectors apart.

        Lists are added to a product one by one: no sum is beyond the first and the last with what lists take away.
        """
        return highest + self._bias + self._taken * (known if is_weighed else 1)

    def _off(self, products: _Numbers, added: _Numbers, largest: _Numbers) -> _Numbers:
        """Return by how much scores may be off: by a rounding for every term of a product, and for every list added."""
        return _ROUNDING * (self._steps * products + 2 * (added + 2) * (products + largest))


def _settle(items: Positions, scores: FloatArray, off: FloatArray, k: int, exact: Exact) -> None:
    """Put the first k of rows that hold some more, best first, in their order, in place.

    Scores are off by `off` at most. Where all scores up to a place are above all behind it for sure, the two parts stay
    apart, and a part of one item keeps its score.
    """
    lowest = np.minimum.accumulate(scores - off, axis=1)[:, :-1]
    highest = np.maximum.accumulate((scores + off)[:, ::-1], axis=1)[:, -2::-1]
    mixed = (lowest <= highest) & (scores[:, 1:] > -np.inf)
    mixed[:, k - 1 :] = np.logical_and.accumulate(mixed[:, k - 1 :], axis=1)  # beyond, the order does not matter
    unsettled = np.zeros(items.shape, dtype=np.bool_)
    unsettled[:, :-1] |= mixed
    unsettled[:, 1:] |= mixed
    rows, columns = np.nonzero(unsettled)
    for start in range(0, len(rows), _TOGETHER):
        some = rows[start : start + _TOGETHER], columns[start : start + _TOGETHER]
        scores[some] = exact(some[0], items[some])
    order = np.lexsort((items, -scores))
    items[:], scores[:] = np.take_along_axis(items, order, axis=1), np.take_along_axis(scores, order, axis=1)
