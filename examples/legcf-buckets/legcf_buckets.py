# SPDX-License-Identifier: Apache-2.0
"""Share one table of b rows by number: e_x = W[x mod b]."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import Budgeted, solved, stored_values
from legcf.training.registry import Method
from legcf.training.stage import single_stage
from pydantic import Field
from torch import nn


class BucketsConfig(Budgeted):
    name: Literal["buckets"] = "buckets"
    dim: int = Field(16, ge=1, description="width of a row")
    buckets: int | None = Field(None, ge=1, description="b, rows of the table; as many as the budget allows if null")


class Buckets(EmbeddingLayer[BucketsConfig]):
    """e_x = W[x mod b]"""

    Config = BucketsConfig
    summary = "one table of few rows, shared by number"
    citation = "nobody"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "default": {"training": {"epochs": 2}}}

    def __init__(self, config: BucketsConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(solved(self.config.buckets), self.config.dim))

    @classmethod
    def sized(cls, config: BucketsConfig, num_users: int, num_items: int) -> BucketsConfig:
        if config.buckets is not None:
            return config
        allowed = stored_values(config.budget or "legcf", num_users + num_items)
        return config.model_copy(update={"buckets": min(allowed // config.dim, num_users + num_items)})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.weight.data.copy_(normal(tuple(self.weight.shape), 0.1, rng))

    def table(self) -> torch.Tensor:
        return self.weight[torch.arange(self.num_entities) % len(self.weight)]


METHOD = Method(Buckets, single_stage)
