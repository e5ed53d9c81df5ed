"""A layer, a backbone and a graph together: the vectors that are trained and ranked."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.backbones.base import Backbone
from legcf.configuration import TrainingConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer
from legcf.errors import UserError
from legcf.graph.adjacency import bipartite
from legcf.graph.propagate import basis

FloatArray = NDArray[np.float32]


class GraphModel(nn.Module):
    """Two ways to the same vectors behind one interface.

    On the propagated basis (M, constant between changes of the graph) a batch costs one small dense product, H = M·Θ
    for its rows alone. Step by step, the whole input is propagated every time: for layers or backbones that are not
    linear, and as the reference that the basis is checked against.
    """

    def __init__(
        self,
        layer: EmbeddingLayer,
        backbone: Backbone,
        train: Interactions,
        training: TrainingConfig,
        spill_folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.layer, self.backbone = layer, backbone
        self._adjacency = bipartite(train)
        self._training = training
        self._spill_folder = spill_folder
        # A pair, so that torch does not take the layer's Θ for a second parameter.
        self._basis: tuple[torch.Tensor, nn.Parameter] | None = None

    @property
    def on_basis(self) -> bool:
        return self._basis is not None

    def rebuild(self) -> None:
        """Make graph and basis anew; to be called when the layer is filled and whenever its graph has changed."""
        self._operator = self.backbone.operator(self.layer.graph(self._adjacency))
        self._basis = None
        wanted = self._training.propagation
        coefficients = self.backbone.coefficients()
        travels = coefficients is not None and coefficients.shape[1] > 1
        linear = self.layer.linear_basis() if wanted == "basis" or (wanted == "auto" and travels) else None
        if linear is None or coefficients is None:
            if wanted == "basis":
                raise UserError("training.propagation = basis needs a linear layer and a linear backbone; use auto.")
            return
        selection, theta = linear
        cap = self._training.memory_cap_mb
        propagated = basis(self._operator, selection, coefficients, cap, self._spill_folder)
        self._basis = torch.from_numpy(propagated), theta

    def encode(self, entities: torch.Tensor) -> torch.Tensor:
        """Final vectors of some entities, differentiable."""
        coefficients = self.backbone.coefficients()
        if self._basis is not None:
            propagated, theta = self._basis
            vectors = (propagated[entities] @ theta).flatten(1)
        elif coefficients is not None and coefficients.shape == (1, 1):
            vectors = float(coefficients[0, 0]) * self.layer.rows(entities)  # nothing travels: only these rows matter
        else:
            vectors = self.backbone.propagate(self._operator, self.layer.input_rows())[entities]
        return self._with_bias(vectors, entities)

    @torch.no_grad()
    def vectors(self) -> tuple[FloatArray, FloatArray]:
        """Final vectors of all users and of all items."""
        entities = self._all_vectors()[: self.layer.num_entities]
        entities = self._with_bias(entities, torch.arange(self.layer.num_entities))
        return entities[: self.layer.num_users].numpy(), entities[self.layer.num_users :].numpy()

    def meta_vectors(self) -> FloatArray | None:
        """H_meta: final vectors of the nodes that the layer added to the graph (Eq. 9)."""
        added = self._all_vectors()[self.layer.num_entities :]
        return added.numpy() if len(added) else None

    def entity_vectors(self) -> FloatArray:
        """H_full (Eq. 9), without any bias."""
        vectors: FloatArray = self._all_vectors()[: self.layer.num_entities].numpy()
        return vectors

    @torch.no_grad()
    def _all_vectors(self) -> torch.Tensor:
        self.eval()
        if self._basis is not None:
            propagated, theta = self._basis
            vectors = (propagated @ theta).flatten(1)
        else:
            vectors = self.backbone.propagate(self._operator, self.layer.input_rows())
        self.train()
        return vectors

    def _with_bias(self, vectors: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
        """A bias is one more column, 1 for users and the bias for items, so a score stays an inner product."""
        bias = self.layer.item_bias
        if bias is None:
            return vectors
        column = torch.cat([torch.ones(self.layer.num_users), bias])[entities]
        return torch.cat([vectors, column[:, None]], dim=1)
