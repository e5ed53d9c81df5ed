# SPDX-License-Identifier: Apache-2.0
"""Join a solved layer and a backbone without torch: what ranks, and at most learns a codebook."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from legcf.backbones.base import Backbone
from legcf.core import distributed
from legcf.core.arrays import Arrays, Positions
from legcf.data.interactions import Interactions
from legcf.embeddings.layer import SolvedLayer
from legcf.embeddings.ranked import pooled_ranking_of, ranking_of
from legcf.graph.adjacency import bipartite
from legcf.graph.operator import Operator
from legcf.ranking.ranking import Ranking

_LAYER = "layer."  # before the names of its arrays in a file, as in that of a trained model


class SolvedModel:
    """Compute the vectors of entities by one propagation; a `GraphModel` that learns no more than a codebook."""

    folds = None

    def __init__(self, layer: SolvedLayer[Any], backbone: Backbone[Any], train: Interactions) -> None:
        self.layer, self.backbone, self.histories = layer, backbone, train
        self._operator: Operator | None = None

    def rebuild(self) -> None:
        """Make the graph anew: when the layer has its values."""
        distributed.broadcast_arrays(self.layer.arrays.values())
        layer, backbone = self.layer, self.backbone
        self._operator = backbone.operator(layer.graph(bipartite(self.histories)), layer.num_users, layer.num_items)
        if backbone.pools:
            self._operator = None  # users follow from items

    def ranking(self, users: Positions | None = None) -> Ranking:
        """Return what ranks, of all users or these."""
        if self._operator is None:
            return pooled_ranking_of(self.layer, self.backbone, self.histories, users)
        operator, coefficients = self._operator, self.backbone.coefficients()
        assert coefficients is not None
        vectors = operator.polynomial(self.layer.input_rows(), coefficients)
        return ranking_of(vectors, self.layer, self.backbone, self.histories).of_users(users)

    def release(self) -> None:
        """Free what steps of training need: nothing."""

    def state_dict(self) -> Arrays:
        """Return what a file holds of the model."""
        return {_LAYER + name: array for name, array in self.layer.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        self.layer.load_state_dict({name.removeprefix(_LAYER): array for name, array in state.items()})
