# SPDX-License-Identifier: Apache-2.0
"""Add a row by cluster and a row by hash, and cluster the sums anew between epochs (CCE).

Tsang and Ahle, "Clustering the Sketch: Dynamic Compression for Embedding Tables", NeurIPS 2023. A row is cut
into chunks, each with its own two small tables: x = T0[h0(x)] + T1[h1(x)]. After an epoch k-means of the x gives T0 and
h0, h1 is drawn anew, and T1 takes the mean of what is left.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, StateDict, normal, smallest_type
from legcf.embeddings.budget import Budgeted, solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, largest_within
from legcf_studies.methods.composed.hashing import draw_constants, hashed

_CONSTANT_BYTES = 16  # of one hash function


class CceConfig(Budgeted):
    name: Literal["cce"] = "cce"
    dim: int = Field(128, ge=1, description="width of a composed row")
    chunks: int = Field(4, ge=1, description="parts of a row with tables, clusters and hashes of their own")
    buckets: int | None = Field(None, ge=1, description="rows of each of the two tables; by the budget if null")
    cluster_epochs: int = Field(5, ge=0, description="epochs after each of which the sums are clustered")

    @model_validator(mode="after")
    def _equal_chunks(self) -> "CceConfig":
        if self.dim % self.chunks:
            raise ValueError(f"dim = {self.dim} cannot be cut into chunks = {self.chunks} of equal width")
        return self


class Cce(EmbeddingLayer[CceConfig]):
    """Give each chunk of E0[x] as W[h0(x)] + W[buckets + h1(x)]; W is chunks × 2 buckets × dim / chunks."""

    Config = CceConfig
    summary = "sum of a clustered and a hashed row, chunk by chunk; sums are clustered anew between epochs"
    citation = "Tsang and Ahle, Clustering the Sketch: Dynamic Compression for Embedding Tables, NeurIPS 2023"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"training": PAPER_TRAINING},
        # Rows of 32: validation NDCG@20 0.1244 on LastFM; 0.0938 with 128.
        "default": {"method": {"dim": 32}, "training": DEFAULT_TRAINING, "ranking": DEFAULT_RANKING},
    }

    assigned: torch.Tensor
    hash_constants: torch.Tensor

    def __init__(self, config: CceConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.num_buckets, chunks = solved(self.config.buckets), config.chunks
        self.weight = nn.Parameter(torch.zeros(chunks, 2 * self.num_buckets, config.dim // chunks))
        self.register_buffer("assigned", torch.zeros(self.num_entities, chunks, dtype=torch.int32))
        self.register_buffer("hash_constants", torch.ones(2, chunks, dtype=torch.int64))

    @classmethod
    def sized(cls, config: CceConfig, num_users: int, num_items: int) -> CceConfig:
        """Solve 2 · buckets · d within the budget; clusters are indices and count in bytes alone."""
        if config.buckets is not None:
            return config
        entities, chunks = num_users + num_items, config.chunks

        def stored(buckets: int) -> int:
            indices = smallest_type(buckets).itemsize * entities * chunks
            return 8 * buckets * config.dim + indices + _CONSTANT_BYTES * chunks

        buckets = largest_within(config.budget, entities, entities, lambda rows: 2 * rows * config.dim, stored)
        return config.model_copy(update={"buckets": buckets})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        every = torch.arange(self.num_entities)
        self.assigned.copy_(hashed(every, draw_constants(self.config.chunks, rng), self.num_buckets))
        self.hash_constants.copy_(draw_constants(self.config.chunks, rng))
        self.weight.data.copy_(normal(tuple(self.weight.shape), 0.1 / 2**0.5, rng))

    def table_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return both rows of W for each entity and chunk, entities × chunks × 2."""
        drawn = self.num_buckets + hashed(ids, self.hash_constants, self.num_buckets)
        return torch.stack([self.assigned[ids].long(), drawn], dim=2)

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        both = self.table_rows(ids)
        parts = [
            nn.functional.embedding_bag(both[:, chunk].contiguous(), weight, mode="sum")
            for chunk, weight in enumerate(self.weight)
        ]
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def recluster(self, chunk: int, centres: torch.Tensor, nearest: torch.Tensor, left: torch.Tensor) -> None:
        """Take clusters for a chunk; the hash's rows take the mean of what they leave, entities × width."""
        hashes = self.table_rows(torch.arange(self.num_entities))[:, chunk, 1] - self.num_buckets
        sums = torch.zeros_like(centres).index_add_(0, hashes, left)
        counts = torch.bincount(hashes, minlength=self.num_buckets).clamp(min=1)
        self.assigned[:, chunk] = nearest.int()
        self.weight[chunk] = torch.cat([centres, sums / counts[:, None]])

    def pack(self, state: StateDict) -> None:
        state["assigned"] = state["assigned"].to(smallest_type(self.num_buckets))
