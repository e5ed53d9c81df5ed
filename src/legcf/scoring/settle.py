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
_NOBODY = np.zeros(0, dtype=np.int64)

_Numbers = Any  # one, or an array of one for each user
Exact = Callable[[Positions, Positions], FloatArray]
"""Give the prescribed scores of some items, each for the user of a row."""


class ItemOrder:
    """Order the items of a model's users.

    Args:
        model: What a model file holds.
    """

    def __init__(self, model: ServedModel) -> None:
        rows, lists = model.item_rows, model.lists
        self._model = model
        self._reach = rows.reach
        self._furthest = float(self._reach.max(initial=0.0))
        self._steps = rows.width + 2 * (1 if rows.codes is None else rows.codes.columns.shape[1]) + 4
        self._bias = 0.0 if model.item_bias is None else float(np.abs(model.item_bias).max(initial=0.0))
        self._taken = 0.0  # from a score at most, by lists of items that all count alike
        if lists is not None:
            self._taken = float(np.bincount(lists.pairs.items, np.maximum(-lists.weights, 0.0)).max(initial=0.0))

    def best(self, profile: UserProfile, find: Callable[[int], Best], count: int) -> Best:
        """Return the best `count` items of one user, where `find` finds as many as it is asked for by their scores."""
        vector, size = profile.vector, count + SPARE
        length = float(vector.dot(vector)) ** 0.5
        if not length:  # nothing is rounded in an order of its own
            return find(count)
        while True:
            items, scores = find(size)
            if not len(items):
                return items, scores
            off, per_reach = self._off(
                length, len(profile.history), abs(float(scores[0])), profile.relative is not None
            )
            others_off, off = off + per_reach * self._furthest, off + per_reach * float(self._reach[items].max())
            is_sure = len(items) < size or scores[-1] + others_off < scores[count - 1] - off
            if not is_sure:
                size *= _GROWTH
                continue
            if len(items) > 1 and (scores[:-1] - scores[1:]).min() <= 2 * off:
                _settle(items[None], scores[None], count, np.array([2 * off]), partial(self._of_one, profile))
            return items[:count], scores[:count]

    def settle_all(self, best: TopK, k: int, vectors: FloatArray, histories: Interactions) -> Positions:
        """Put the first k items of many users in order, in place, where `best` holds `SPARE` more. Needs numba.

        Returns the users in whose first k there may be others.
        """
        from legcf.ranking.topk_numba import code_products, has_near

        items, scores = best
        rows, lists, lengths = (
            self._model.item_rows,
            self._model.lists,
            np.sqrt(np.einsum("ux,ux->u", vectors, vectors)),
        )
        off, per_reach = self._off(lengths, histories.user_degrees, np.abs(scores[:, 0]), histories.weights is not None)
        others_off, off = off + per_reach * self._furthest, off + per_reach * self._reach[items].max(axis=1)

        def exact(asked: Positions, which: Positions) -> FloatArray:
            if rows.codes is not None:
                made = self._with_bias(code_products(rows.codes, vectors, asked, which), which)
            else:
                made = self._with_bias(rows.products(vectors[asked], which), which)
            if lists is not None:
                lists.add_to_pairs(made, asked, which, histories)
            return made

        near = np.flatnonzero(has_near(scores, 2 * off, k))
        some_items, some_scores = items[near], scores[near]
        _settle(some_items, some_scores, k, 2 * off[near], lambda asked, which: exact(near[asked], which))
        items[near], scores[near] = some_items, some_scores
        last = scores[:, -1]
        unsure: Positions = np.flatnonzero((last > -np.inf) & (last + others_off >= scores[:, k - 1] - off))
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

    def _off(self, length: _Numbers, count: _Numbers, highest: _Numbers, is_weighed: bool) -> tuple[_Numbers, _Numbers]:
        """Return by how much the scores of a user may be off: a number, and one for each unit of an item's reach.

        The user's vector has this length, `count` is how many items it has, `highest` the size of its highest score. A
        product of d terms is off by d roundings of its terms' sizes at most, however it is summed; a list that is
        added, by one of the sum up to there, which is no larger than the first and the last with what lists take away.
        """
        additions = 2 * _ROUNDING * (count + 2)
        taken = self._taken * count if is_weighed else self._taken
        return additions * (highest + self._bias + taken), (_ROUNDING * self._steps + additions) * length


def _settle(items: Positions, scores: FloatArray, k: int, apart: FloatArray, exact: Exact) -> None:
    """Put the first k of rows that hold some more, best first, in their order, in place.

    Scores that differ by more than `apart` stay as they are.
    """
    with np.errstate(invalid="ignore"):  # rows that hold fewer end in −inf
        near = scores[:, :-1] - scores[:, 1:] <= apart[:, None]
        near[:, k:] &= scores[:, k + 1 :] + apart[:, None] >= scores[:, k - 1 : k]
    unsettled = np.zeros(items.shape, dtype=np.bool_)
    unsettled[:, :-1] |= near
    unsettled[:, 1:] |= near
    numbers, columns = np.nonzero(unsettled)
    for start in range(0, len(numbers), _TOGETHER):
        some = numbers[start : start + _TOGETHER], columns[start : start + _TOGETHER]
        scores[some] = exact(some[0], items[some])
    order = np.lexsort((items, -scores))
    items[:], scores[:] = np.take_along_axis(items, order, axis=1), np.take_along_axis(scores, order, axis=1)
