# SPDX-License-Identifier: Apache-2.0
"""Add item lists for many users at once, compiled."""

from typing import TYPE_CHECKING

from legcf.core.arrays import FloatArray
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


@njit(cache=True, parallel=True)
def _add(scores, scales, indptr, items, relative, list_indptr, list_items, list_weights):  # type: ignore[no-untyped-def]
    for row in prange(scores.shape[0]):
        for pair in range(indptr[row], indptr[row + 1]):
            factor = scales[row] * relative[pair] if len(relative) else scales[row]
            item = items[pair]
            for entry in range(list_indptr[item], list_indptr[item + 1]):
                scores[row, list_items[entry]] += factor * list_weights[entry]
