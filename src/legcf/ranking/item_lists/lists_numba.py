# SPDX-License-Identifier: Apache-2.0
"""Add item lists for many users at once, compiled."""

from typing import TYPE_CHECKING

import numpy as np

from legcf.core.arrays import FloatArray, Positions
from legcf.core.jit import njit, prange
from legcf.data.interactions import Interactions
from legcf.ranking.tables.pooling_numba import relative_array

if TYPE_CHECKING:
    from legcf.ranking.item_lists.lists import ItemLists


def add_lists(scores: FloatArray, lists: "ItemLists", histories: Interactions) -> None:
    """Add n_u^−p Σ_j S_j to each row of `scores`."""
    _add(
        scores, lists.user_scales(histories), histories.indptr, histories.items, relative_array(histories),
        lists.pairs.indptr, lists.pairs.items, lists.weights,
    )  # fmt: skip


def add_to_pairs(
    scores: FloatArray, rows: Positions, items: Positions, lists: "ItemLists", histories: Interactions
) -> None:
    """Add what the lists of history number `rows[p]`, ascending, say of item `items[p]` to score p, list after list.

    There are fewer than 2^16 scores.
    """
    _add_to_pairs(
        scores, rows, items, lists.scales_of(histories.user_degrees[rows]), histories.indptr, histories.items,
        relative_array(histories), lists.pairs.indptr, lists.pairs.items, lists.weights, lists.num_items,
    )  # fmt: skip


@njit(cache=True)
def _add_to_pairs(  # type: ignore[no-untyped-def]
    scores, rows, items, scales, indptr, history, relative, list_indptr, list_items, list_weights, num_items
):  # fmt: skip
    place = np.zeros(num_items, dtype=np.uint16)  # of an item's score in its row, from 1 on
    stop = 0
    while stop < len(rows):
        start, row = stop, rows[stop]
        while stop < len(rows) and rows[stop] == row:
            place[items[stop]] = stop + 1 - start
            stop += 1
        for pair in range(indptr[row], indptr[row + 1]):
            speaker = history[pair]
            for entry in range(list_indptr[speaker], list_indptr[speaker + 1]):
                number = place[list_items[entry]]
                if number:
                    weight = list_weights[entry] * relative[pair] if len(relative) else list_weights[entry]
                    scores[start + number - 1] += scales[start] * weight
        for number in range(start, stop):
            place[items[number]] = 0


@njit(cache=True, parallel=True)
def _add(scores, scales, indptr, items, relative, list_indptr, list_items, list_weights):  # type: ignore[no-untyped-def]
    for row in prange(scores.shape[0]):
        for pair in range(indptr[row], indptr[row + 1]):
            factor = scales[row] * relative[pair] if len(relative) else scales[row]
            item = items[pair]
            for entry in range(list_indptr[item], list_indptr[item + 1]):
                scores[row, list_items[entry]] += factor * list_weights[entry]
