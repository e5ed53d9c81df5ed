# SPDX-License-Identifier: Apache-2.0
"""Define the contract of a backbone: how rows travel over the graph."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.core.arrays import FloatArray
from legcf.core.config import BackboneConfig
from legcf.graph.propagate import Operator, polynomial, product
from legcf.ranking.tables.pooling import Pooling

B = TypeVar("B", bound=BackboneConfig)


class LayeredConfig(BackboneConfig):
    """Hold the options of backbones with layers: without any, nothing travels."""

    layers: int = Field(3, ge=0, description="L, how far rows travel")

    @property
    def weighs_added_nodes(self) -> bool:
        return self.layers > 0


class Backbone(nn.Module, ABC, Generic[B]):
    """Map input rows to final vectors (`propagate`), multiplying them by what `operator` makes of the weighted graph.

    A linear backbone says which polynomials of the operator make the blocks of its output; propagation, its gradient
    and the propagated basis then follow. The constructor allocates the parameters of one that learns, `initialise`
    fills them; loading a saved one is the constructor and `load_state_dict`.
    """

    Config: ClassVar[type[BackboneConfig]]
    summary: ClassVar[str]
    citation: ClassVar[str]

    def __init__(self, config: B, width: int) -> None:
        """Allocate parameters; `width` is that of the input rows."""
        super().__init__()
        self.config = config

    def initialise(self, rng: np.random.Generator) -> None:
        """Fill parameters for training from scratch; most backbones have none."""

    @abstractmethod
    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        """Return the matrix that rows are multiplied by. Nodes: users, then items, then what the layer added."""

    def coefficients(self) -> FloatArray | None:
        """Return the blocks × (L+1) polynomial coefficients of a linear backbone, None for one that is not linear."""
        return None

    def pooling(self) -> Pooling | None:
        """Return how a user's vector follows from its items' final vectors alone, where it does."""
        return None

    @property
    def keeps_items(self) -> bool:
        """Tell whether an item's final vector is its row, whatever the graph."""
        return False

    def without_pairs(
        self, vectors: torch.Tensor, entities: torch.Tensor, users: torch.Tensor, items: torch.Tensor
    ) -> torch.Tensor | None:
        """Return each pair's user vector as if the pair had never been; None if the backbone cannot tell.

        Row r of `vectors` belongs to entity `entities[r]`; `users` and `items` are rows of the pairs.
        """
        return None

    def propagate(
        self,
        operator: Operator,
        rows: torch.Tensor,
        rng: np.random.Generator | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the final vectors of all nodes, or of these, which are distinct.

        Dropout happens only in training mode and only where `rng` draws it.
        """
        coefficients = self.coefficients()
        if coefficients is None:
            raise TypeError(f"{type(self).__name__} is not linear and must define propagate itself")
        return polynomial(operator, rows, coefficients, None if nodes is None else nodes.numpy())


class LayeredBackbone(Backbone[B]):
    """Set E0 and every layer's output side by side; one that is linear with some settings gives `coefficients`."""

    num_layers: int

    @abstractmethod
    def layer(
        self, number: int, rows: torch.Tensor, neighbours: torch.Tensor, rng: np.random.Generator | None
    ) -> torch.Tensor:
        """Return the rows that leave layer `number` (0 … L − 1); `neighbours` is the operator times `rows`."""

    def block(self, rows: torch.Tensor) -> torch.Tensor:
        """Return what a layer's rows add to the final vectors."""
        return rows

    def dropped_edges(self, operator: Operator, rng: np.random.Generator | None) -> Operator:
        """Return the operator without the edges that this step leaves out."""
        return operator

    def propagate(
        self,
        operator: Operator,
        rows: torch.Tensor,
        rng: np.random.Generator | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if self.coefficients() is not None:
            return super().propagate(operator, rows, rng, nodes)
        rng = rng if self.training else None
        operator = self.dropped_edges(operator, rng)
        blocks = [_rows_of(rows, nodes)]
        for number in range(self.num_layers):
            if nodes is not None and number == self.num_layers - 1:  # nothing travels on from here
                neighbours, rows, nodes = product(operator, rows, nodes.numpy()), _rows_of(rows, nodes), None
            else:
                neighbours = product(operator, rows)
            rows = self.layer(number, rows, neighbours, rng)
            blocks.append(self.block(_rows_of(rows, nodes)))
        return torch.cat(blocks, dim=1)


def _rows_of(rows: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
    return rows if nodes is None else rows.index_select(0, nodes)
