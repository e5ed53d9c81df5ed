# SPDX-License-Identifier: Apache-2.0
"""Learn LEGCF: a codebook of meta-embeddings and a sparse assignment, joined to the graph as nodes.

Liang et al., "Lightweight Embeddings for Graph Collaborative Filtering", SIGIR 2024. Symbols: E_meta (c × d) is
`codebook`, S (N × c, t non-zeros a row) is `assignment`, and E = S · E_meta (Eq. 1).
"""

from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from legcf.assignment.assignment import Assignment
from legcf.assignment.dictionary import balance, learn
from legcf.assignment.initialise import from_anchors, random_anchors
from legcf.assignment.matching_pursuit import encode
from legcf.assignment.solvers import SOLVERS
from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import BackboneConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal, smallest_type, xavier_uniform
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.embeddings.composed.legcf_presets import LEGCF_PRESETS
from legcf.embeddings.search_space import PAPER_GRID, OneOf, Space
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import history_metric
from legcf.graph.adjacency import bipartite, expanded, normalised
from legcf.graph.partition import communities
from legcf.ranking.ranking import Codes
from legcf.ranking.tables.packing import bits_for

_MAX_BUCKETS = 4096  # unless a budget asks for more: coding costs c times the items; other limits were not measured
_ENTITIES_PER_BUCKET = 4  # a codebook of more than a fourth of what it codes is hardly shared; not measured
# t and the least c of a file with more bytes than usual, of which codes have one in five: on Gowalla at 4 MB 0.1940 /
# 0.1342 (test recall@20 / ndcg@20) against 0.1918 / 0.1332 with t = 2. Other shares were not measured.
_T_OF_LARGE, _MIN_C_OF_LARGE, _CODES_ONE_IN = 4, 1000, 5


class LegcfConfig(Budgeted):
    name: Literal["legcf"] = "legcf"
    c: int | None = Field(None, ge=1, description="meta-embeddings in the codebook; what the budget allows if null")
    largest_c: int | None = Field(None, ge=1, description="most meta-embeddings where c is null; without a budget 4096")
    dim: int = Field(128, ge=1, description="d, the width of a meta-embedding")
    t: int = Field(2, ge=1, description="meta-embeddings an entity; 4 if neither t nor c is set and bytes allow it")
    coded: Literal["all", "items"] = Field(
        "all", description="who has weights of its own; with items, users are what the graph brings them"
    )
    meta_nodes: bool = Field(True, description="meta-embeddings are nodes of the graph; if not, only rows of them are")
    start: Literal["metis", "random", "als", "table"] = Field(
        "metis", description="first S: METIS or random anchors; or S and codebook by coding a factorisation or table"
    )
    table: str | None = Field(None, description="run or file whose user and item vectors start = table codes")
    als: AlsSettings = Field(AlsSettings(), description="settings of the factorisation that a warm start codes")
    score_scale: float = Field(10.0, gt=0, description="a warm start multiplies the factorisation's scores by this")
    signed: bool = Field(False, description="let a warm start's weights be negative; only where no graph weighs them")
    anchor_weight: float = Field(0.5, ge=0, le=1, description="w*, the weight of an entity's anchor at the start")
    distinct_others: bool = Field(False, description="draw an entity's other t − 1 meta-embeddings without replacement")
    codebook: Literal["xavier", "normal"] = Field("xavier", description="how E_meta is drawn: Xavier, or N(0, 1)")
    normalise: Literal["once", "twice"] = Field(
        "once", description="normalise the expanded graph, or the user–item block before that as well"
    )
    tanh: bool = Field(False, description="squash composed rows by tanh, as the release does; rules out the basis")
    item_bias: bool = Field(False, description="learn a bias for every item, as the release; not counted in #Param")
    update: str = Field(
        "matching-pursuit",
        description=f"solver of the assignment update ({', '.join(SOLVERS.built_in)}); none ends after pretraining",
    )
    update_on: Literal["mean", "concat", "first", "last"] = Field(
        "mean", description="what of the layers' blocks S is solved from, where the backbone sets them side by side"
    )
    update_every: int = Field(1, ge=1, description="m, epochs between assignment updates in the second stage")
    update_at: Literal["end", "start"] = Field("end", description="update after an epoch (Alg. 1) or before it")
    update_support: Literal["new", "kept"] = Field(
        "new", description="choose meta-embeddings anew in an update, or only fit new weights to those an entity has"
    )
    update_damping: float = Field(0.0, ge=0, lt=1, description="share of the old S that stays in an update")
    update_gate: bool = Field(False, description="keep an update only if validation does not fall")

    @property
    def codebook_size(self) -> int:
        return self.c or 0

    @field_validator("update")
    @classmethod
    def _is_a_solver(cls, name: str) -> str:
        if name != "none" and name not in SOLVERS:
            raise ValueError(f"choose one of {', '.join(sorted(SOLVERS))}, or none")
        return name

    @model_validator(mode="after")
    def _fits(self) -> "LegcfConfig":
        if (self.start == "table") != (self.table is not None):
            raise ValueError("start = table and a table go together; --warm-start sets both")
        if self.update != "none" and not self.meta_nodes:
            raise ValueError("an update of S needs meta-embeddings that are joined to the graph; set update = none")
        if self.c is not None and self.t > self.c:
            raise ValueError(f"t = {self.t} meta-embeddings an entity cannot be chosen from c = {self.c}; lower t")
        return self


class Legcf(EmbeddingLayer[LegcfConfig]):
    """Compose rows, E = S · E_meta, with the meta-embeddings as c further nodes of the graph."""

    Config = LegcfConfig
    version = 2  # an update's weights are exact where meta-embeddings are nearly alike
    summary = "codebook of meta-embeddings with a sparse assignment learned in closed form"
    citation = "Liang et al., Lightweight Embeddings for Graph Collaborative Filtering, SIGIR 2024"
    presets: ClassVar[dict[str, dict[str, Any]]] = LEGCF_PRESETS

    search_space: ClassVar[Space] = {**PAPER_GRID, "method.anchor_weight": OneOf((0.5, 0.6, 0.7, 0.8, 0.9))}

    indices: torch.Tensor
    weights: torch.Tensor

    def __init__(self, config: LegcfConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.num_buckets = solved(self.config.c)
        self.codebook = nn.Parameter(torch.zeros(self.num_buckets, config.dim))
        if config.item_bias:
            self.item_bias = nn.Parameter(torch.zeros(num_items))
        self._first_coded = num_users if config.coded == "items" else 0
        coded = self.num_entities - self._first_coded
        self.register_buffer("indices", torch.zeros(coded, config.t, dtype=torch.int32))
        self.register_buffer("weights", torch.zeros(coded, config.t))

    @property
    def width(self) -> int:
        return self.config.dim

    @property
    def assignment(self) -> Assignment:
        """Return S for all N entities; those without weights of their own have empty rows."""
        empty = ((self._first_coded, 0), (0, 0))
        return Assignment(np.pad(self.indices, empty), np.pad(self.weights, empty), self.num_buckets)

    @assignment.setter
    def assignment(self, assignment: Assignment) -> None:
        self.indices.copy_(torch.from_numpy(assignment.indices[self._first_coded :]))
        self.weights.copy_(torch.from_numpy(assignment.weights[self._first_coded :]))

    @classmethod
    def sized(cls, config: LegcfConfig, num_users: int, num_items: int) -> LegcfConfig:
        """Solve c from the budget, but never so many meta-embeddings that they are hardly shared."""
        if config.c is not None:
            if config.c > (entities := num_users + num_items):
                raise UserError(
                    f"method.c = {config.c} meta-embeddings are more than the {entities} users and items; lower c."
                )
            return config
        budget = stored_values(config.budget or "legcf", num_users + num_items)
        coded = num_items if config.coded == "items" else num_users + num_items
        affordable = (budget - config.t * coded) // config.dim
        if affordable < config.t:
            raise too_small(budget, config.t * (coded + config.dim))
        most = config.largest_c or (_MAX_BUCKETS if config.budget is None else affordable)
        return config.model_copy(update={"c": max(config.t, min(affordable, most, coded // _ENTITIES_PER_BUCKET))})

    @classmethod
    def within(cls, config: LegcfConfig, byte_budget: int, num_items: int) -> LegcfConfig:
        """Give an item four meta-embeddings, of more, where a fifth of the bytes holds them; the rest is for lists."""
        if config.coded != "items" or config.budget is not None or {"c", "t", "largest_c"} & config.model_fields_set:
            return config
        most = min(num_items // _ENTITIES_PER_BUCKET, _MAX_BUCKETS)
        weights = num_items * (1 + _T_OF_LARGE) + num_items * _T_OF_LARGE * bits_for(most) // 8
        c = min((byte_budget // _CODES_ONE_IN - weights) // (config.dim + 1), most)
        return config.model_copy(update={"c": c, "t": _T_OF_LARGE}) if c >= _MIN_C_OF_LARGE else config

    @classmethod
    def check(cls, config: LegcfConfig, backbone: BackboneConfig) -> None:
        if config.update != "none" and config.update_on == "mean" and len(set(backbone.block_widths(config.dim))) > 1:
            raise UserError("method.update_on = mean needs layers of equal width; set it to concat, first or last.")
        if config.signed and config.meta_nodes and backbone.weighs_added_nodes:
            raise UserError(
                "method.signed = true would put negative weights into the graph;"
                " it goes with --set method.meta_nodes=false, --backbone history or --set backbone.layers=0."
            )

    @property
    def start_table(self) -> str | None:
        return self.config.table

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.config.start == "als":
            users, items = factorise(train, self.config.dim, rng, self.config.als, quiet=False)
            self.initialise_from(users, items, train, rng)
            return
        settings = self.config
        if settings.start == "metis":
            anchors = communities(bipartite(train), self.num_buckets, seed=int(rng.integers(2**31)))
        else:
            anchors = random_anchors(self.num_entities, self.num_buckets, rng)
        self.assignment = from_anchors(
            anchors, self.num_buckets, settings.t, settings.anchor_weight, rng, not settings.distinct_others
        )
        shape = (self.num_buckets, settings.dim)
        drawn = xavier_uniform(shape, rng) if settings.codebook == "xavier" else normal(shape, 1.0, rng)
        self.codebook.data.copy_(drawn)
        self._start_bias(rng)

    def _start_bias(self, rng: np.random.Generator) -> None:
        if self.item_bias is not None:
            self.item_bias.data.copy_(normal((self.num_items,), 1.0, rng))

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Solve S and E_meta from a table that ranks already, such that S · E_meta is nearly that table."""
        settings = self.config
        users, items, metric = balance(users, items)
        table, nonnegative = np.concatenate([users, items])[self._first_coded :], not settings.signed
        codebook, assignment = learn(table, self.num_buckets, settings.t, rng, nonnegative=nonnegative, quiet=False)
        codebook = codebook * metric
        if settings.coded == "items":
            codebook = codebook @ history_metric(train, assignment.compose(codebook), users * metric)
        # S and E_meta share one free scale: weights of mean square 1 are edges as strong as an interaction.
        scale = float(np.sqrt(np.square(assignment.weights[assignment.weights != 0]).mean()))
        self.indices.copy_(torch.from_numpy(assignment.indices))
        self.weights.copy_(torch.from_numpy(assignment.weights / scale))
        self.codebook.data.copy_(torch.from_numpy(codebook * scale * np.sqrt(settings.score_scale)))
        self._start_bias(rng)

    @property
    def als_settings(self) -> AlsSettings:
        return self.config.als

    def take_items(self, other: Self, changed: Positions, vectors: FloatArray) -> None:
        """Keep the codebook and code changed items over it."""
        settings = self.config
        if settings.coded != "items" or settings.tanh:
            super().take_items(other, changed, vectors)
            return
        codebook, positions = other.codebook.detach(), torch.from_numpy(changed)
        self.codebook.data.copy_(codebook)
        self.indices[: other.num_items], self.weights[: other.num_items] = other.indices, other.weights
        indices, weights = encode(vectors, codebook.numpy(), settings.t, nonnegative=not settings.signed)
        self.indices[positions], self.weights[positions] = torch.from_numpy(indices), torch.from_numpy(weights)
        if self.item_bias is not None and other.item_bias is not None:
            self.item_bias.data.fill_(float(other.item_bias.median()))  # of a new item: the usual one
            self.item_bias.data[: other.num_items] = other.item_bias.data

    def table(self) -> torch.Tensor:
        coded = self._composed(self.indices, self.weights)
        return torch.cat([coded.new_zeros(self._first_coded, self.config.dim), coded]) if self._first_coded else coded

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        coded = (ids - self._first_coded).clamp(min=0)
        has_code = (ids >= self._first_coded)[:, None]
        return self._composed(self.indices[coded], self.weights[coded] * has_code)

    def meta_rows(self) -> torch.Tensor:
        """Return E_meta, c × d: what rows are composed of."""
        return self.codebook

    def input_rows(self) -> torch.Tensor:
        """Return the composed rows above the codebook (Eq. 6)."""
        return torch.cat([self.table(), self.meta_rows()]) if self.config.meta_nodes else self.table()

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        inner = normalised(adjacency) if self.config.normalise == "twice" else adjacency
        return expanded(inner, self.assignment.to_csr()) if self.config.meta_nodes else inner

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.config.tanh:
            return None
        if not self.config.meta_nodes:
            return self.assignment.to_csr(), self.codebook
        identity = sp.identity(self.num_buckets, dtype=np.float32, format="csr")
        return sp.vstack([self.assignment.to_csr(), identity], format="csr"), self.codebook

    def item_codes(self) -> Codes | None:
        if self.config.tanh:
            return None
        first = self.num_users - self._first_coded
        items = Assignment(self.indices.numpy()[first:], self.weights.numpy()[first:], self.num_buckets)
        return Codes(self.meta_rows().detach().numpy(), items)

    def num_params(self) -> int:
        """Count c·d + t·N (t·I with items only); the column indices of S are not counted."""
        return self.codebook.numel() + self.weights.numel()

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        state["indices"] = state["indices"].to(smallest_type(self.num_buckets))

    def _composed(self, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = nn.functional.embedding_bag(indices, self.meta_rows(), per_sample_weights=weights, mode="sum")
        return torch.tanh(rows) if self.config.tanh else rows
