# SPDX-License-Identifier: Apache-2.0
"""Learn a table by gradient: the layer of `full` with rows that torch trains."""

import torch
from torch import nn

from legcf.embeddings.base import EmbeddingLayer
from legcf.embeddings.full import FullTableConfig, TableLayer


class FullTable(TableLayer, EmbeddingLayer[FullTableConfig]):
    """Learn one free vector an entity."""

    def __init__(self, config: FullTableConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(self.num_entities - self.first, self.config.dim))

    def table(self) -> torch.Tensor:
        if not self.first:
            return self.weight
        return torch.cat([self.weight.new_zeros(self.first, self.config.dim), self.weight])

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        if not self.first:
            return self.weight[ids]
        return self.weight[(ids - self.first).clamp(min=0)] * (ids >= self.first)[:, None]
