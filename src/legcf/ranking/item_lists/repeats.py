# SPDX-License-Identifier: Apache-2.0
"""Let users take again what they have: every item stands in its own list, so that own items compete with others.

    score(u, i) += n_u^−p · w_ui · ρ    for the items i of u, with w_ui in units of u's mean

A pair weighs as often as it was taken, so what somebody takes often is shown first. ρ is the only thing to choose.
"""

from dataclasses import replace

import numpy as np

from legcf.core.arrays import LongArray
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking, product_spread


def with_repeats(ranking: Ranking, weight: float, list_power: float, most_bytes: int | None = None) -> Ranking:
    """Show users what they have, too, with a weight in units of the standard deviation of inner products.

    Lists that were there keep to `most_bytes`: the weakest entries make way.
    """
    nothing = ItemLists(_no_pairs(ranking.num_items), np.empty(0, dtype=np.float32), list_power)
    lists = nothing if ranking.lists is None else ranking.lists
    own = weight * (product_spread(ranking.users, ranking.items) or 1.0)
    repeated = lists.with_repeats(own)
    while most_bytes is not None and repeated.storage_bytes() > most_bytes and lists.num_entries:
        # a tenth at a time: sizes of what is left are known only then
        lists = _strongest(lists, lists.num_entries * 9 // 10)
        repeated = lists.with_repeats(own)
    return replace(ranking, lists=repeated, repeats=True)


def _strongest(lists: ItemLists, count: int) -> ItemLists:
    order: LongArray = np.sort(np.argsort(-np.abs(lists.weights), kind="stable")[:count])
    kept = np.zeros(lists.num_entries, dtype=np.bool_)
    kept[order] = True
    return replace(lists, pairs=lists.pairs.subset(kept), weights=lists.weights[kept])


def _no_pairs(num_items: int) -> Interactions:
    return Interactions.empty(num_items, num_items)
