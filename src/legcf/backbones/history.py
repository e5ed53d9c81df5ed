# SPDX-License-Identifier: Apache-2.0
"""Propagate by one hop: an item is its own row, a user the weighted sum of the rows of its items.

Nothing of a user is stored, and a user never seen in training is the same case as a known one: its history is all there
is to know. The model of Kabbur, Ning and Karypis (FISM, KDD 2013) and Steck (EASE, WWW 2019) in the form of a graph
backbone with h_u = Σ_{i ∈ N(u)} e_i / (deg_u^a deg_i^b) and h_i = e_i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from legcf.backbones.base import Backbone
from legcf.core.arrays import FloatArray, inverse_power
from legcf.core.config import BackboneConfig
from legcf.graph.adjacency import csr, one_more_each
from legcf.graph.operator import Operator
from legcf.ranking.tables.pooling import Pooling

if TYPE_CHECKING:
    import torch


class HistoryConfig(BackboneConfig):
    name: Literal["history"] = "history"
    user_power: float = Field(0.5, ge=-4, le=4, description="a, how far long histories are shortened")
    item_power: float = Field(0.5, ge=-4, le=4, description="b, how much less a popular item says about a user")

    @property
    def weighs_added_nodes(self) -> bool:
        return False


class History(Backbone[HistoryConfig]):
    Config = HistoryConfig
    summary = "a user is the weighted sum of its items; no user is stored, new users are like known ones"
    citation = "Kabbur et al., FISM, KDD 2013"
    pools = True

    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        """Return [[0, R'], [0, I]]: users take from their items, everything else keeps its own row."""
        size = graph.shape[0]
        block = graph[:num_users, num_users : num_users + num_items].tocsr()
        user_scale = inverse_power(np.diff(block.indptr), self.config.user_power)
        self._counts = np.bincount(block.indices, minlength=num_items)
        item_scale = inverse_power(self._counts, self.config.item_power)
        self.scales = np.concatenate([user_scale, item_scale]).astype(np.float32)
        weights = np.repeat(user_scale, np.diff(block.indptr)) * item_scale[block.indices]
        loops = np.arange(num_users, size)
        data = np.concatenate([weights, np.ones(len(loops))]).astype(np.float32)
        indices = np.concatenate([block.indices + num_users, loops])
        return Operator(csr(data, indices, one_more_each(block.indptr, len(loops)), (size, size)), symmetric=False)

    def coefficients(self) -> FloatArray:
        return np.array([[0, 1]], dtype=np.float32)

    def pooling(self) -> Pooling:
        return Pooling(self.config.user_power, self.config.item_power, self._counts)

    @property
    def keeps_items(self) -> bool:
        return True

    def without_pairs(
        self, vectors: torch.Tensor, entities: torch.Tensor, users: torch.Tensor, items: torch.Tensor
    ) -> torch.Tensor:
        """Take back what the item gave to its user, which is exact here."""
        import torch  # here: what ranks without gradients does so without it

        scales = torch.from_numpy(self.scales)
        share = scales[entities[users]] * scales[entities[items]]
        return vectors[users] - share[:, None] * vectors[items]
