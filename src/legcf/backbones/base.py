# SPDX-License-Identifier: Apache-2.0
"""Define the contract of a backbone: how rows travel over the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from legcf.core.arrays import FloatArray
from legcf.core.config import BackboneConfig
from legcf.graph.operator import Operator
from legcf.ranking.tables.pooling import Pooling

if TYPE_CHECKING:
    import torch

B = TypeVar("B", bound=BackboneConfig)


class LayeredConfig(BackboneConfig):
    """Hold the options of backbones with layers: without any, nothing travels."""

    layers: int = Field(3, ge=0, description="L, how far rows travel")

    @property
    def weighs_added_nodes(self) -> bool:
        return self.layers > 0


class Backbone(ABC, Generic[B]):
    """Map input rows to final vectors (`propagate`), multiplying them by what `operator` makes of the weighted graph.

    A linear backbone says which polynomials of the operator make the blocks of its output; propagation, its gradient
    and the propagated basis then follow, and it needs no torch to rank.
    """

    Config: ClassVar[type[BackboneConfig]]
    summary: ClassVar[str]
    citation: ClassVar[str]

    learns: ClassVar[bool] = False
    """Whether it is a module of torch, which may have parameters."""

    pools: ClassVar[bool] = False
    """Whether users are nothing but their histories, and items their rows: no graph is needed."""
    scales: FloatArray
    """Of one that pools, once it has an operator: a number for every user and item; their product is how much of an
    item is in its user."""

    def __init__(self, config: B, width: int) -> None:
        """Take the settings; `width` is that of the input rows."""
        super().__init__()
        self.config = config

    def parameters(self) -> Iterable[torch.Tensor]:
        """Return what it learns."""
        return ()

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
        from legcf.graph.basis import polynomial  # here: what ranks without gradients does so without torch

        return polynomial(operator, rows, coefficients, None if nodes is None else nodes.numpy())
