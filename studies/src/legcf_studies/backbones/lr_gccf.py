# SPDX-License-Identifier: Apache-2.0
"""Propagate as LR-GCCF: H = [E0 ‖ S̃ E0 ‖ … ‖ S̃^L E0] over the graph with self-loops, S̃ = D̃^-1/2 (A + I) D̃^-1/2.

Side by side the layers realise the paper's residual preference: a score is the sum of the scores of all layers. The
authors' code (newlei/LR-GCCF) learns nothing in the backbone; the paper has a matrix a layer, `transform` here.
"""

from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.backbones.base import LayeredConfig
from legcf.core.arrays import FloatArray
from legcf.graph.adjacency import normalised
from legcf.graph.operator import Operator
from legcf_studies.backbones.adjacency import with_self_loops
from legcf_studies.backbones.layered import LayeredBackbone


class LRGCCFConfig(LayeredConfig):
    name: Literal["lr-gccf"] = "lr-gccf"
    transform: bool = Field(False, description="learn a d × d matrix a layer, as the paper; its code has none")

    def block_widths(self, width: int) -> list[int]:
        return [width] * (self.layers + 1)


class LRGCCF(LayeredBackbone[LRGCCFConfig]):
    Config = LRGCCFConfig
    summary = "linear propagation with self-loops, all layers side by side"
    citation = "Chen et al., Revisiting Graph based Collaborative Filtering, AAAI 2020"

    def __init__(self, config: LRGCCFConfig, width: int) -> None:
        super().__init__(config, width)
        self.num_layers = config.layers
        matrices = config.layers if config.transform else 0
        self.transforms = nn.ParameterList(nn.Parameter(torch.zeros(width, width)) for _ in range(matrices))

    def initialise(self, rng: np.random.Generator) -> None:
        """Set the identity: training starts from what the authors' code computes."""
        for matrix in self.transforms:
            nn.init.eye_(matrix)

    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        return Operator(normalised(with_self_loops(graph)), symmetric=True)

    def coefficients(self) -> FloatArray | None:
        return None if len(self.transforms) else np.eye(self.config.layers + 1, dtype=np.float32)

    def layer(
        self, number: int, rows: torch.Tensor, neighbours: torch.Tensor, rng: np.random.Generator | None
    ) -> torch.Tensor:
        return torch.matmul(neighbours, self.transforms[number])
