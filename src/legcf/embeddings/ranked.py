# SPDX-License-Identifier: Apache-2.0
"""Make what ranks of a layer's vectors once they have travelled over the graph."""

from typing import Any

import numpy as np

from legcf.backbones.base import Backbone
from legcf.core.arrays import FloatArray, Positions
from legcf.data.interactions import Interactions
from legcf.embeddings.layer import Layer
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.pooling_numba import pooled_users


def ranking_of(vectors: FloatArray, layer: Layer[Any], backbone: Backbone[Any], histories: Interactions) -> Ranking:
    """Return what ranks by the final vectors of all nodes: vectors, bias and, where they suffice, codes."""
    users, items, added = np.split(vectors, [layer.num_users, layer.num_entities])
    # Nothing was learnt of a user without pairs: a vector of zeros makes it a cold user.
    users = np.where(histories.user_degrees[:, None] > 0, users, np.float32(0))
    pooling, bias = backbone.pooling(), layer.bias()
    if pooling is not None and histories.weights is not None:
        users = pooling.vectors(histories, items.__getitem__, items.shape[1])
    return Ranking(
        users,
        items,
        histories,
        bias=None if bias is None else bias.copy(),
        filter=layer.item_filter(histories),
        pooling=pooling,
        codes=layer.item_codes() if backbone.keeps_items else None,
        meta=added.copy() if len(added) else None,  # a view would hold all vectors
    )


def pooled_ranking_of(
    layer: Layer[Any], backbone: Backbone[Any], train: Interactions, users: Positions | None = None
) -> Ranking:
    """Return the same where users are their histories and items their rows: nothing else need be in memory.

    The users may be some alone, in this order.
    """
    histories = train if users is None else train.of_users(users)
    pooling, items, bias, added = backbone.pooling(), np.array(layer.item_rows()), layer.bias(), layer.added_rows()
    assert pooling is not None
    return Ranking(
        pooled_users(pooling, histories, items),
        items,
        histories,
        bias=None if bias is None else bias.copy(),
        filter=layer.item_filter(train),
        pooling=pooling,
        codes=layer.item_codes(),
        popularity=train.item_degrees,
        meta=None if added is None else added.copy(),
    )
