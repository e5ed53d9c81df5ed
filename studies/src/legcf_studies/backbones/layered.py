# SPDX-License-Identifier: Apache-2.0
"""Define backbones that may learn: layer after layer, all of them side by side."""

from abc import abstractmethod

import numpy as np
import torch
from torch import nn

from legcf.backbones.base import B, Backbone
from legcf.core.arrays import Positions
from legcf.graph.operator import Operator


class LayeredBackbone(nn.Module, Backbone[B]):
    """Set E0 and every layer's output side by side; one that is linear with some settings gives `coefficients`.

    The constructor allocates parameters, `initialise` fills them; loading a saved one is the constructor and
    `load_state_dict`.
    """

    learns = True

    def __init__(self, config: B, width: int) -> None:
        nn.Module.__init__(self)
        self.config = config

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


def product(operator: Operator, dense: torch.Tensor, rows: Positions | None = None) -> torch.Tensor:
    """Return one differentiable product; with distinct `rows`, those alone."""
    result: torch.Tensor = _Product.apply(dense, operator, rows)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dense, operator, rows):  # type: ignore[no-untyped-def]
        ctx.operator, ctx.rows = operator, rows
        dense = dense.detach().numpy()
        return torch.from_numpy(operator.times(dense) if rows is None else operator.times_at(rows, dense))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        back, gradient = ctx.operator.transposed, gradient.contiguous().numpy()
        moved = back.times(gradient) if ctx.rows is None else back.times_from(ctx.rows, gradient)
        return torch.from_numpy(moved), None, None
