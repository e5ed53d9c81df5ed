# SPDX-License-Identifier: Apache-2.0
"""Refine LEGCF's meta-embeddings by a second, finer codebook (C2F-MetaEmbed).

Known from the code htyjers/C2F-MetaEmbed (2025). LEGCF comes first. Then the meta-embeddings in use are
0.8 · C + 0.2 · S2 · soft(F): F are few sparse rows, soft(F) = sign(F) · max(|F| − θ, 0), and S2 joins each coarse row
to the four communities of a coarser partition that most of its entities belong to. Both codebooks are graph nodes.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, StateDict, smallest_type
from legcf.embeddings.budget import solved
from legcf.embeddings.legcf import Legcf
from legcf.embeddings.legcf_codes import LegcfConfig
from legcf.embeddings.legcf_presets import GRAPH_TRAINING
from legcf.graph.adjacency import bipartite, expanded
from legcf.graph.partition import communities
from legcf.ranking.ranking import Codes
from legcf_studies.methods.common import largest_within, ones_at

_COARSE_PER_FINE = 3  # rows, as in the code: 300 and 100


class C2fConfig(LegcfConfig):
    name: Literal["c2f"] = "c2f"  # type: ignore[assignment]
    fine_rows: int | None = Field(None, ge=1, description="c2, rows of the finer codebook; a third of c if null")
    fine_t: int = Field(4, ge=1, description="fine rows a coarse one")
    fine_weight: float = Field(0.2, ge=0, le=1, description="share of the fine rows in the meta-embeddings in use")
    fine_threshold: float = Field(
        1.0, ge=0, description="θ, below which fine values are zero, in root mean squares of the coarse codebook"
    )
    fine_rate: float = Field(3.0, gt=0, description="multiplies training.learning_rate in the second part")


class C2f(Legcf):
    """Compose rows as LEGCF does, of (1 − w) · C + w · S2 · soft(F) once F is there."""

    Config = C2fConfig
    config: C2fConfig
    version = 1
    summary = "LEGCF whose meta-embeddings are refined by a second codebook of few sparse rows"
    citation = "C2F-MetaEmbed, 2025, github.com/htyjers/C2F-MetaEmbed"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The code: c = 300 and 100, w* = 0.5, batches of 32,768 triplets, L2 5e-4.
        "paper": {
            "method": {"c": 300, "update": "pinv"},
            "training": {"batch_size": 6554, "learning_rate": 1e-3, "l2": 5e-4, "patience": 5},
        },
        # LEGCF's preset graph-pursuit before it.
        "default": {"training": GRAPH_TRAINING},
    }

    fine_indices: torch.Tensor
    fine_weights: torch.Tensor
    threshold: torch.Tensor
    refined: torch.Tensor

    def __init__(self, config: C2fConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.fine = nn.Parameter(torch.zeros(solved(self.config.fine_rows), config.dim))
        shape = (self.num_buckets, min(config.fine_t, len(self.fine)))
        self.register_buffer("fine_indices", torch.zeros(shape, dtype=torch.int32))
        self.register_buffer("fine_weights", torch.zeros(shape))
        self.register_buffer("threshold", torch.zeros(()))
        self.register_buffer("refined", torch.zeros((), dtype=torch.bool))

    @classmethod
    def sized(cls, config: LegcfConfig, num_users: int, num_items: int) -> C2fConfig:
        """Solve c from the budget, with a third as many fine rows."""
        assert isinstance(config, C2fConfig)
        entities, t, d = num_users + num_items, config.t, config.dim
        if not config.meta_nodes or config.tanh:
            raise UserError(
                "Method c2f needs method.meta_nodes = true and method.tanh = false: leave both as they are."
            )

        def values(c: int) -> int:
            return (c + _fine_rows(config, c)) * d + t * entities + config.fine_t * c

        def stored(c: int) -> int:
            index, fine_index = smallest_type(c).itemsize, smallest_type(_fine_rows(config, c)).itemsize
            of_fine = (4 + fine_index) * config.fine_t * c + 5  # with the threshold and whether it is refined
            return 4 * (c + _fine_rows(config, c)) * d + (4 + index) * t * entities + of_fine

        c = config.c
        if c is None:
            c = max(largest_within(config.budget, entities, max(entities // 4, 1), values, stored), t)
        sized = config.model_copy(update={"c": c, "fine_rows": _fine_rows(config, c)})
        assert isinstance(super().sized(sized, num_users, num_items), C2fConfig)
        return sized

    def refine(self, train: Interactions, rng: np.random.Generator) -> None:
        """Add the finer codebook: S2 by a coarser partition, F from drawn rows of the coarse one."""
        count = len(self.fine)
        parts = communities(bipartite(train), count, seed=int(rng.integers(2**31)))
        shared = (self.assignment.to_csr().T @ ones_at(parts[:, None], count)).toarray()
        shares = torch.softmax(torch.from_numpy(shared.astype(np.float32)), dim=1)
        weights, indices = torch.topk(shares, self.fine_indices.shape[1], dim=1)
        self.fine_indices.copy_(indices)
        self.fine_weights.copy_(weights)
        drawn = torch.from_numpy(rng.choice(self.num_buckets, count, replace=count > self.num_buckets))
        coarse = self.codebook.detach()
        self.fine.data.copy_(coarse[drawn])
        self.threshold.copy_(self.config.fine_threshold * coarse.square().mean().sqrt())
        self.refined.fill_(True)

    def fine_rows(self) -> torch.Tensor:
        """Return soft(F)."""
        return self.fine - torch.clamp(self.fine, -self.threshold, self.threshold)

    def meta_rows(self) -> torch.Tensor:
        if not self.refined:
            return self.codebook
        finer = nn.functional.embedding_bag(
            self.fine_indices, self.fine_rows(), per_sample_weights=self.fine_weights, mode="sum"
        )
        share = self.config.fine_weight
        return (1 - share) * self.codebook + share * finer

    def input_rows(self) -> torch.Tensor:
        rows = super().input_rows()
        return torch.cat([rows, self.fine_rows()]) if self.refined else rows

    def added_rows(self) -> FloatArray | None:
        return EmbeddingLayer.added_rows(self)

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        """Return [[A, S, 0], [Sᵀ, 0, S2], [0, S2ᵀ, 0]]."""
        graph = super().graph(adjacency)
        if not self.refined:
            return graph
        joined = Assignment(self.fine_indices.numpy(), self.fine_weights.numpy(), len(self.fine)).to_csr()
        nothing = sp.csr_matrix((self.num_entities, len(self.fine)), dtype=np.float32)
        return expanded(graph, sp.vstack([nothing, joined], format="csr"))

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        return None if self.refined else super().linear_basis()

    def item_codes(self) -> Codes | None:
        return None if self.refined else super().item_codes()

    def num_params(self) -> int:
        """Count both codebooks, t weights an entity and `fine_t` a coarse row."""
        return super().num_params() + self.fine.numel() + self.fine_weights.numel()

    def pack(self, state: StateDict) -> None:
        super().pack(state)
        state["fine_indices"] = state["fine_indices"].to(smallest_type(len(self.fine)))


def _fine_rows(config: C2fConfig, c: int) -> int:
    return config.fine_rows or max(c // _COARSE_PER_FINE, 1)
