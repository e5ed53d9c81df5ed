# SPDX-License-Identifier: Apache-2.0
"""Propagate as LightGCN: H = Σ_l α_l Â^l E0 over the symmetrically normalised graph, with nothing to learn."""

from typing import Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field, model_validator

from legcf.backbones.base import Backbone, LayeredConfig
from legcf.core.arrays import FloatArray
from legcf.graph.adjacency import normalised
from legcf.graph.operator import Operator


class LightGCNConfig(LayeredConfig):
    name: Literal["lightgcn"] = "lightgcn"
    layer_weights: list[float] | None = Field(None, description="α_0 … α_L; all 1/(L+1) by default")

    @model_validator(mode="after")
    def _one_weight_a_layer(self) -> "LightGCNConfig":
        if self.layer_weights is not None and len(self.layer_weights) != self.layers + 1:
            raise ValueError(f"layer_weights needs layers + 1 = {self.layers + 1} numbers")
        return self


class LightGCN(Backbone[LightGCNConfig]):
    Config = LightGCNConfig
    summary = "neighbourhood averaging without transforms, mean of the layers"
    citation = "He et al., LightGCN, SIGIR 2020"

    def __init__(self, config: LightGCNConfig, width: int) -> None:
        super().__init__(config, width)
        weights = config.layer_weights or [1 / (config.layers + 1)] * (config.layers + 1)
        self._coefficients = np.array([weights], dtype=np.float32)

    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        return Operator(normalised(graph), symmetric=True)

    def coefficients(self) -> FloatArray:
        return self._coefficients

    @property
    def keeps_items(self) -> bool:
        return bool(self._coefficients.shape == (1, 1) and self._coefficients[0, 0] == 1)
