# SPDX-License-Identifier: Apache-2.0
"""Quantise a codebook of meta-embeddings while it is learned, with a fixed assignment (what is known of LERG).

Liang et al., "Lightweight Embeddings with Graph Rewiring for Collaborative Filtering", TOIS 2025. Ê = S · Q(E_meta), S
from METIS and never updated. Q rounds to a few bits with a step that is learned (Esser et al., LSQ, ICLR 2020), so that
more rows fit into the same bytes. Known from its abstract alone; what it does to the graph on a device is left out.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from legcf.assignment.initialise import from_anchors
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, StateDict, smallest_type
from legcf.embeddings.budget import Budgeted, solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf.graph.adjacency import bipartite
from legcf.graph.partition import communities
from legcf.ranking.tables.packing import pack_bits, unpack_bits
from legcf_studies.methods.common import PAPER_TRAINING, largest_within, take_saved_shapes, xavier_uniform

_STEP_BYTES = 4
_ENTITIES_PER_BUCKET = 4  # as in LEGCF: of more communities METIS leaves many empty


class LergConfig(Budgeted):
    name: Literal["lerg"] = "lerg"
    dim: int = Field(128, ge=1, description="width of a meta-embedding")
    c: int | None = Field(None, ge=2, description="meta-embeddings in the codebook; what the budget allows if null")
    bits: int = Field(8, ge=2, le=8, description="bits of a value in the codebook; ours, the paper's are not known")
    t: int = Field(2, ge=1, description="meta-embeddings an entity")
    anchor_weight: float = Field(0.5, ge=0, le=1, description="w*, the weight of an entity's anchor")


class Lerg(EmbeddingLayer[LergConfig]):
    """Give E0 = S · Q(C) with Q(v) = round(clamp(v / step)) · step, straight through; S is fixed by METIS."""

    Config = LergConfig
    summary = "codebook learned in few bits with a learned step, assignment fixed by METIS; as far as it is known"
    citation = "Liang et al., Lightweight Embeddings with Graph Rewiring for Collaborative Filtering, TOIS 2025"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # LEGCF's loop, which the authors share. Codes come last, so the last weights are kept.
        "paper": {"training": {**PAPER_TRAINING, "keep": "last"}},
        # Anchors of 0.9: validation NDCG@20 0.1165 on LastFM; 0.1074 with 0.5.
        "default": {
            "method": {"anchor_weight": 0.9},
            "training": {**DEFAULT_TRAINING, "keep": "last"},
            "ranking": DEFAULT_RANKING,
        },
    }

    indices: torch.Tensor
    codes: torch.Tensor

    def __init__(self, config: LergConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.num_buckets = solved(self.config.c)
        self.codebook = nn.Parameter(torch.zeros(self.num_buckets, config.dim))
        self.step = nn.Parameter(torch.ones(()))
        self.register_buffer("indices", torch.zeros(self.num_entities, config.t, dtype=torch.int32))
        self.register_buffer("codes", torch.zeros(0, dtype=torch.uint8))
        take_saved_shapes(self, "codebook", "codes")

    @classmethod
    def sized(cls, config: LergConfig, num_users: int, num_items: int) -> LergConfig:
        """Solve c: a value of b bits counts as b / 32, S as in LEGCF; in bytes, S is its indices alone."""
        if config.c is not None:
            return config
        entities = num_users + num_items

        def stored(c: int) -> int:
            return -(-c * config.dim * config.bits // 8) + smallest_type(c).itemsize * config.t * entities + _STEP_BYTES

        most = max(entities // _ENTITIES_PER_BUCKET, 2)
        c = largest_within(config.budget, entities, most, lambda c: _values(config, c, entities), stored)
        return config.model_copy(update={"c": max(c, 2, config.t)})

    @property
    def frozen(self) -> bool:
        return self.codebook.numel() == 0

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        anchors = communities(bipartite(train), self.num_buckets, seed=int(rng.integers(2**31)))
        assignment = from_anchors(anchors, self.num_buckets, self.config.t, self.config.anchor_weight, rng)
        self.indices.copy_(torch.from_numpy(assignment.indices))
        self.codebook.data.copy_(xavier_uniform((self.num_buckets, self.config.dim), rng))
        self.step.data.copy_(2 * self.codebook.data.abs().mean() / self._highest**0.5)  # as LSQ's authors start

    @property
    def _highest(self) -> int:
        return int(2 ** (self.config.bits - 1) - 1)

    @property
    def _weights(self) -> torch.Tensor:
        """Return the weights of S: the anchor's, and equal shares of the rest; the same for every entity."""
        t, anchor = self.config.t, self.config.anchor_weight
        return torch.tensor([anchor] + [(1 - anchor) / (t - 1)] * (t - 1) if t > 1 else [1.0])

    def quantised(self) -> torch.Tensor:
        """Return Q(C): gradients pass rounding; the step's are scaled by 1 / √(values · highest), as in LSQ."""
        if self.frozen:
            size = (self.num_buckets, self.config.dim)
            levels = unpack_bits(self.codes.numpy(), self.config.bits, size[0] * size[1], np.int16)
            return torch.from_numpy(levels.reshape(size).astype(np.float32) - self._highest - 1) * self.step
        scale = (self.codebook.numel() * self._highest) ** -0.5
        step = self.step * scale + (self.step * (1 - scale)).detach()
        inside = torch.clamp(self.codebook / step, -self._highest - 1, self._highest)
        rounded = inside + (torch.round(inside) - inside).detach()
        result: torch.Tensor = rounded * step
        return result

    @torch.no_grad()
    def freeze(self) -> None:
        """Keep the codes of the codebook in place of its values."""
        levels = torch.round(torch.clamp(self.codebook / self.step, -self._highest - 1, self._highest))
        packed = pack_bits((levels.long() + self._highest + 1).numpy(), self.config.bits)
        self.codes = torch.from_numpy(packed.copy())
        self.codebook.grad = None
        self.codebook.data = torch.zeros(0)

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        indices = self.indices[ids].long()
        weights = self._weights.expand(len(ids), -1)
        return nn.functional.embedding_bag(indices, self.quantised(), per_sample_weights=weights, mode="sum")

    def num_params(self) -> int:
        return _values(self.config, self.num_buckets, self.num_entities)

    def total_trainable(self) -> int:
        return self.num_buckets * self.config.dim + 1

    def pack(self, state: StateDict) -> None:
        state["indices"] = state["indices"].to(smallest_type(self.num_buckets))


def _values(config: LergConfig, c: int, entities: int) -> int:
    """Count values of b bits as b / 32 of one, and t weights an entity as LEGCF does."""
    return -(-c * config.dim * config.bits // 32) + config.t * entities
