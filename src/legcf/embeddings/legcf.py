# SPDX-License-Identifier: Apache-2.0
"""Learn LEGCF by gradient: the layer of `legcf_codes` with a codebook that torch trains."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from legcf.embeddings.base import EmbeddingLayer, smallest_type
from legcf.embeddings.composed import composed
from legcf.embeddings.legcf_codes import CodedLayer, LegcfConfig


class Legcf(CodedLayer, EmbeddingLayer[LegcfConfig]):
    """Compose rows, E = S · E_meta, and learn E_meta."""

    indices: torch.Tensor
    weights: torch.Tensor

    def __init__(self, config: LegcfConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        shapes = self.shapes()
        self.codebook = nn.Parameter(torch.zeros(shapes["codebook"]))
        if "item_bias" in shapes:
            self.item_bias = nn.Parameter(torch.zeros(shapes["item_bias"]))
        self.register_buffer("indices", torch.zeros(shapes["indices"], dtype=torch.int32))
        self.register_buffer("weights", torch.zeros(shapes["weights"]))

    def table(self) -> torch.Tensor:
        coded = self._composed(self.indices, self.weights)
        return torch.cat([coded.new_zeros(self.first_coded, self.config.dim), coded]) if self.first_coded else coded

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        coded = (ids - self.first_coded).clamp(min=0)
        has_code = (ids >= self.first_coded)[:, None]
        return self._composed(self.indices[coded], self.weights[coded] * has_code)

    def meta_rows(self) -> torch.Tensor:
        """Return E_meta, c × d: what rows are composed of."""
        return self.codebook

    def input_rows(self) -> torch.Tensor:
        """Return the composed rows above the codebook (Eq. 6)."""
        return torch.cat([self.table(), self.meta_rows()]) if self.config.meta_nodes else self.table()

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.config.tanh:
            return None
        if not self.config.meta_nodes:
            return self.assignment.to_csr(), self.codebook
        identity = sp.identity(self.num_buckets, dtype=np.float32, format="csr")
        return sp.vstack([self.assignment.to_csr(), identity], format="csr"), self.codebook

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        state["indices"] = state["indices"].to(smallest_type(self.num_buckets))

    def _composed(self, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = composed(self.meta_rows(), indices, weights)
        return torch.tanh(rows) if self.config.tanh else rows
