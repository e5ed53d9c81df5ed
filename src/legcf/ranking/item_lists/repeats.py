# SPDX-License-Identifier: Apache-2.0
"""Let users take again what they have: every item stands in its own list, so that own items compete with others.

    score(u, i) += n_u^−p · w_ui · ρ    for the items i of u, with w_ui in units of u's mean

A pair weighs as often as it was taken, so what somebody takes often is shown first. ρ is the only thing to choose.
"""

from dataclasses import replace

from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking, product_spread


def with_repeats(ranking: Ranking, weight: float, list_power: float, most_bytes: int | None = None) -> Ranking:
    """Show users what they have, too, with a weight in units of the standard deviation of inner products.

    Lists that were there keep to `most_bytes`: the weakest entries make way.
    """
    lists = ItemLists.empty(ranking.num_items, list_power) if ranking.lists is None else ranking.lists
    own = weight * (product_spread(ranking.users, ranking.items) or 1.0)
    repeated = lists.with_repeats(own)
    while most_bytes is not None and repeated.storage_bytes() > most_bytes and lists.num_entries:
        # a tenth at a time: sizes of what is left are known only then
        kept = lists.strongest(lists.num_entries * 9 // 10)
        lists = replace(lists, pairs=lists.pairs.subset(kept), weights=lists.weights[kept])
        repeated = lists.with_repeats(own)
    return replace(ranking, lists=repeated, repeats=True)
