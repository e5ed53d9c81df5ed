# SPDX-License-Identifier: Apache-2.0
"""The contract of a backbone: how rows travel over the graph."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.core.arrays import FloatArray
from legcf.core.config import BackboneConfig
from legcf.graph.propagate import Operator, polynomial
from legcf.ranking.tables.pooling import Pooling

B = TypeVar("B", bound=BackboneConfig)


class LayeredConfig(BackboneConfig):
    """Of backbones with layers: without any, nothing travels."""

    layers: int = Field(3, ge=0, description="L, how far rows travel")

    @property
    def weighs_added_nodes(self) -> bool:
        return self.layers > 0


class Backbone(nn.Module, ABC, Generic[B]):
    """`operator` turns the weighted graph into what is multiplied; `propagate` maps input rows to final vectors.

    A linear backbone says which polynomials of the operator make the blocks of its output; propagation, its gradient
    and the propagated basis then follow. The constructor allocates the parameters of one that learns, `initialise`
    fills them; loading a saved one is the constructor and `load_state_dict`.
    """

    Config: ClassVar[type[BackboneConfig]]
    summary: ClassVar[str]
    citation: ClassVar[str]

    def __init__(self, config: B, width: int) -> None:
        """`width` is that of the input rows."""
        super().__init__()
        self.config = config

    def initialise(self, rng: np.random.Generator) -> None:
        """Fill parameters for training from scratch; most backbones have none."""

    @abstractmethod
    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        """What rows are multiplied by. Nodes of the graph: users, then items, then what the layer added."""

    def coefficients(self) -> FloatArray | None:
        """blocks × (L+1) polynomial coefficients of a linear backbone, None for one that is not linear."""
        return None

    def pooling(self) -> Pooling | None:
        """How a user's vector follows from its items' final vectors alone, where it does."""
        return None

    @property
    def keeps_items(self) -> bool:
        """Whether an item's final vector is its row, whatever the graph."""
        return False

    def without_pairs(
        self, vectors: torch.Tensor, entities: torch.Tensor, users: torch.Tensor, items: torch.Tensor
    ) -> torch.Tensor | None:
        """For each pair of places in `vectors`, its user's vector as if the pair had never been; None if not known."""
        return None

    def propagate(
        self,
        operator: Operator,
        rows: torch.Tensor,
        rng: np.random.Generator | None = None,
        wanted: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Final vectors of all nodes, or of those `wanted`, which are distinct.

        Dropout happens only in training mode and only where `rng` draws it.
        """
        coefficients = self.coefficients()
        if coefficients is None:
            raise TypeError(f"{type(self).__name__} is not linear and must define propagate itself")
        return polynomial(operator, rows, coefficients, None if wanted is None else wanted.numpy())


def taken(rows: torch.Tensor, wanted: torch.Tensor | None) -> torch.Tensor:
    """The rows of the wanted nodes, or all of them."""
    return rows if wanted is None else rows.index_select(0, wanted)
