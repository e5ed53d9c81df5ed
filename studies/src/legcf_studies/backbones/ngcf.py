# SPDX-License-Identifier: Apache-2.0
"""Propagate as NGCF: add transformed neighbours and the transformed product of a node with its neighbours.

As the authors' code computes it (xiangwang1223/neural_graph_collaborative_filtering), with M = Ã E and
Ã = D̃^-1 (A + I): E ← dropout(LReLU(M W₁ + b₁) + LReLU((E ⊙ M) W₂ + b₂)), and H = [E0 ‖ E1/‖E1‖ ‖ … ‖ EL/‖EL‖] by row.
The paper's Eq. 7 is adjacency = sym, activation = joint, normalise = false.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field, model_validator
from torch import nn
from torch.nn.functional import leaky_relu, normalize

from legcf.backbones.base import LayeredConfig
from legcf.core.arrays import FloatArray
from legcf.graph.adjacency import normalised
from legcf.graph.operator import Operator
from legcf_studies.backbones.adjacency import row_normalised, with_self_loops
from legcf_studies.backbones.dropout import dropped, thinned
from legcf_studies.backbones.layered import LayeredBackbone

_SLOPE = 0.2  # of LeakyReLU below zero: TensorFlow's default, which the authors' code keeps

_ADJACENCIES: dict[str, Callable[[sp.csr_matrix], sp.csr_matrix]] = {
    "norm": lambda graph: row_normalised(with_self_loops(graph)),
    "sym": normalised,
    "mean": row_normalised,
    "mean+I": lambda graph: with_self_loops(row_normalised(graph)),
    "plain": lambda graph: graph,
}
_SYMMETRIC = {"sym", "plain"}


class NGCFConfig(LayeredConfig):
    name: Literal["ngcf"] = "ngcf"
    widths: list[Annotated[int, Field(ge=1)]] | None = Field(
        None, description="widths of the layers 1 … L; all as wide as the rows by default"
    )
    adjacency: Literal["norm", "sym", "mean", "mean+I", "plain"] = Field(
        "norm",
        description="D̃^-1 (A + I) as the code; sym is the paper's D^-1/2 A D^-1/2 with the node itself added to the"
        " first message; mean is D^-1 A; plain is A",
    )
    activation: Literal["separate", "joint"] = Field(
        "separate", description="LeakyReLU of each message as the code, or of their sum as the paper"
    )
    normalise: bool = Field(True, description="scale rows of every layer's block to length 1, as the code")
    message_dropout: float = Field(0.1, ge=0, lt=1, description="chance to drop a value of a layer's output")
    node_dropout: float = Field(0.0, ge=0, lt=1, description="chance to drop an edge in a step, in all layers at once")

    @model_validator(mode="after")
    def _one_width_a_layer(self) -> "NGCFConfig":
        if self.widths is not None and len(self.widths) != self.layers:
            raise ValueError(f"widths needs one number for each of the {self.layers} layers")
        return self

    def block_widths(self, width: int) -> list[int]:
        return [width, *(self.widths or [width] * self.layers)]


class _Layer(nn.Module):
    """Hold W₁, b₁ and W₂, b₂."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.neighbour_weight, self.affinity_weight = (nn.Parameter(torch.zeros(before, after)) for _ in range(2))
        self.neighbour_bias, self.affinity_bias = (nn.Parameter(torch.zeros(1, after)) for _ in range(2))

    def forward(self, message: torch.Tensor, affinity: torch.Tensor, joint: bool) -> torch.Tensor:
        neighbours = torch.addmm(self.neighbour_bias, message, self.neighbour_weight)
        products = torch.addmm(self.affinity_bias, affinity, self.affinity_weight)
        if joint:
            return leaky_relu(neighbours + products, _SLOPE)
        return leaky_relu(neighbours, _SLOPE) + leaky_relu(products, _SLOPE)


class NGCF(LayeredBackbone[NGCFConfig]):
    Config = NGCFConfig
    summary = "transformed neighbours and their products with the node, all layers side by side"
    citation = "Wang et al., Neural Graph Collaborative Filtering, SIGIR 2019"

    def __init__(self, config: NGCFConfig, width: int) -> None:
        super().__init__(config, width)
        self.num_layers = config.layers
        widths = config.block_widths(width)
        self.layers = nn.ModuleList(_Layer(before, after) for before, after in pairwise(widths))

    def initialise(self, rng: np.random.Generator) -> None:
        """Draw everything by Xavier, biases included."""
        for parameter in self.parameters():
            bound = np.sqrt(6 / sum(parameter.shape))
            parameter.data.copy_(torch.from_numpy(rng.uniform(-bound, bound, parameter.shape)))

    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        adjacency = self.config.adjacency
        return Operator(_ADJACENCIES[adjacency](graph), adjacency in _SYMMETRIC)

    def coefficients(self) -> FloatArray | None:
        return None if len(self.layers) else np.ones((1, 1), dtype=np.float32)

    def layer(
        self, number: int, rows: torch.Tensor, neighbours: torch.Tensor, rng: np.random.Generator | None
    ) -> torch.Tensor:
        config = self.config
        message = neighbours + rows if config.adjacency == "sym" else neighbours
        rows = self.layers[number](message, rows * neighbours, config.activation == "joint")
        return dropped(rows, config.message_dropout, rng)

    def block(self, rows: torch.Tensor) -> torch.Tensor:
        return normalize(rows) if self.config.normalise else rows

    def dropped_edges(self, operator: Operator, rng: np.random.Generator | None) -> Operator:
        return thinned(operator, self.config.node_dropout, rng)
