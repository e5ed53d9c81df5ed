# SPDX-License-Identifier: Apache-2.0
"""Join a layer that is never trained, a backbone and a graph: vectors that are ranked, without torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.backbones.base import Backbone
from legcf.core import distributed
from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.embeddings.layer import Arrays, Layer, SolvedLayer
from legcf.graph.adjacency import bipartite
from legcf.graph.operator import Operator
from legcf.ranking.ranking import Ranking

_LAYER = "layer."  # before the names of its arrays in a file, as in that of a trained model


class SolvedModel:
    """Compute the vectors of entities by one propagation; a `GraphModel` that learns nothing."""

    folds = None

    def __init__(self, layer: SolvedLayer[Any], backbone: Backbone[Any], train: Interactions) -> None:
        self.layer, self.backbone, self._train = layer, backbone, train
        self._operator: Operator | None = None

    def rebuild(self) -> None:
        """Make the graph anew: when the layer has its values."""
        distributed.broadcast_arrays(self.layer.arrays.values())
        layer = self.layer
        self._operator = self.backbone.operator(layer.graph(bipartite(self._train)), layer.num_users, layer.num_items)

    def ranking(self) -> Ranking:
        """Return what ranks."""
        operator, coefficients = self._operator, self.backbone.coefficients()
        assert operator is not None
        assert coefficients is not None
        vectors = operator.polynomial(self.layer.input_rows(), coefficients)
        return ranking_of(vectors, self.layer, self.backbone, self._train)

    def state_dict(self) -> Arrays:
        """Return what a file holds of the model."""
        return {_LAYER + name: array for name, array in self.layer.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        self.layer.load_state_dict({name.removeprefix(_LAYER): array for name, array in state.items()})


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
        pooling=pooling,
        codes=layer.item_codes() if backbone.keeps_items else None,
        meta=added if len(added) else None,
    )
