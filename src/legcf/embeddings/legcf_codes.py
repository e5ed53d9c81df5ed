# SPDX-License-Identifier: Apache-2.0
"""Solve LEGCF: a codebook of meta-embeddings and a sparse assignment, joined to the graph as nodes.

Liang et al., "Lightweight Embeddings for Graph Collaborative Filtering", SIGIR 2024. Symbols: E_meta (c × d) is
`codebook`, S (N × c, t non-zeros a row) is `assignment`, and E = S · E_meta (Eq. 1).
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field, field_validator, model_validator

from legcf.assignment.assignment import Assignment
from legcf.assignment.dictionary import balance, learn
from legcf.assignment.initialise import from_anchors, random_anchors
from legcf.assignment.matching_pursuit import encode
from legcf.assignment.solvers import SOLVERS
from legcf.core.arrays import Arrays, FloatArray, Positions
from legcf.core.config import BackboneConfig, RunConfig
from legcf.core.errors import UserError
from legcf.core.jit import njit, prange
from legcf.data.interactions import Interactions
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.embeddings.layer import Layer, SolvedLayer, normal_values, xavier_values
from legcf.embeddings.legcf_presets import LEGCF_PRESETS
from legcf.embeddings.search_space import FACTORISATION, OneOf, Space, common_space
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
    coding_rounds: int = Field(
        8, ge=1, description="rounds of pursuit and fit in which a warm start learns its codebook"
    )
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


class CodedLayer(Layer[LegcfConfig]):
    """Compose rows, E = S · E_meta, with the meta-embeddings as c further nodes of the graph: all but how."""

    Config = LegcfConfig
    version = 2  # an update's weights are exact where meta-embeddings are nearly alike
    summary = "codebook of meta-embeddings with a sparse assignment learned in closed form"
    citation = "Liang et al., Lightweight Embeddings for Graph Collaborative Filtering, SIGIR 2024"
    presets: ClassVar[dict[str, dict[str, Any]]] = LEGCF_PRESETS

    @classmethod
    def search_space(cls, method: LegcfConfig, config: RunConfig) -> Space:
        common = common_space(config)
        if config.ranking.search_representation:
            return common
        if method.start in ("metis", "random"):
            return {**common, "method.anchor_weight": OneOf((0.5, 0.6, 0.7, 0.8, 0.9))}
        width: Space = {} if config.ranking.bytes is None else {"method.dim": OneOf((16, 32, 64, 128))}
        return {**common, **(FACTORISATION if method.start == "als" else {}), **width}

    @property
    def num_buckets(self) -> int:
        return solved(self.config.c)

    @property
    def first_coded(self) -> int:
        """Return the first entity with weights of its own."""
        return self.num_users if self.config.coded == "items" else 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of codebook, bias (if any) and of indices and weights, which are S."""
        of_codes = (self.num_entities - self.first_coded, self.config.t)
        bias = {"item_bias": (self.num_items,)} if self.config.item_bias else {}
        return {"codebook": (self.num_buckets, self.config.dim), **bias, "indices": of_codes, "weights": of_codes}

    @property
    def width(self) -> int:
        return self.config.dim

    @property
    def assignment(self) -> Assignment:
        """Return S for all N entities; those without weights of their own have empty rows."""
        empty = ((self.first_coded, 0), (0, 0))
        indices, weights = np.pad(self.array("indices"), empty), np.pad(self.array("weights"), empty)
        return Assignment(indices, weights, self.num_buckets)

    @assignment.setter
    def assignment(self, assignment: Assignment) -> None:
        self.array("indices")[...] = assignment.indices[self.first_coded :]
        self.array("weights")[...] = assignment.weights[self.first_coded :]

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
    def start_factorisation(self) -> AlsSettings | None:
        return self.config.als if self.config.start == "als" else None

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
        drawn = xavier_values(shape, rng) if settings.codebook == "xavier" else normal_values(shape, 1.0, rng)
        self.array("codebook")[...] = drawn
        self._start_bias(rng)

    def _start_bias(self, rng: np.random.Generator) -> None:
        if self.config.item_bias:
            self.array("item_bias")[...] = normal_values((self.num_items,), 1.0, rng)

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Solve S and E_meta from a table that ranks already, such that S · E_meta is nearly that table."""
        settings = self.config
        users, items, metric = balance(users, items)
        table, nonnegative = np.concatenate([users, items])[self.first_coded :], not settings.signed
        codebook, assignment = learn(
            table, self.num_buckets, settings.t, rng, settings.coding_rounds, nonnegative, quiet=False
        )
        codebook = codebook * metric
        if settings.coded == "items":
            codebook = codebook @ history_metric(train, assignment.compose(codebook), users * metric)
        # S and E_meta share one free scale: weights of mean square 1 are edges as strong as an interaction.
        scale = float(np.sqrt(np.square(assignment.weights[assignment.weights != 0]).mean()))
        self.array("indices")[...] = assignment.indices
        self.array("weights")[...] = assignment.weights / scale
        self.array("codebook")[...] = codebook * scale * np.sqrt(settings.score_scale)
        self._start_bias(rng)

    @property
    def als_settings(self) -> AlsSettings:
        return self.config.als

    def take_items(self, other: "CodedLayer", changed: Positions, vectors: FloatArray) -> None:
        """Keep the codebook and code changed items over it."""
        settings = self.config
        if settings.coded != "items" or settings.tanh:
            super().take_items(other, changed, vectors)
            return
        codebook = other.array("codebook")
        self.array("codebook")[...] = codebook
        coded = encode(vectors, codebook, settings.t, nonnegative=not settings.signed)
        for name, values in zip(("indices", "weights"), coded, strict=True):
            self.array(name)[: other.num_items] = other.array(name)
            self.array(name)[changed] = values
        if settings.item_bias:
            bias = np.sort(other.array("item_bias"))
            self.array("item_bias")[...] = bias[(len(bias) - 1) // 2]  # of a new item: the usual one
            self.array("item_bias")[: other.num_items] = other.array("item_bias")

    def added_rows(self) -> FloatArray | None:
        return self.array("codebook") if self.config.meta_nodes else None

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        inner = normalised(adjacency) if self.config.normalise == "twice" else adjacency
        return expanded(inner, self.assignment.to_csr()) if self.config.meta_nodes else inner

    def item_codes(self) -> Codes | None:
        if self.config.tanh:
            return None
        first = self.num_users - self.first_coded
        items = Assignment(self.array("indices")[first:], self.array("weights")[first:], self.num_buckets)
        return Codes(self.array("codebook"), items)

    def num_params(self) -> int:
        """Count c·d + t·N (t·I with items only); the column indices of S are not counted."""
        return self.array("codebook").size + self.array("weights").size


class SolvedCodes(CodedLayer, SolvedLayer[LegcfConfig]):
    """Hold the layer where it is coded once, from a factorisation or another table, and learns no more than E_meta."""

    learned = ("codebook", "item_bias")

    def __init__(self, config: LegcfConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        types = {"indices": np.int32}
        self.arrays |= {name: np.zeros(shape, types.get(name, np.float32)) for name, shape in self.shapes().items()}

    @classmethod
    def solves(cls, config: LegcfConfig) -> bool:
        return not config.tanh

    @classmethod
    def learns_codebook(cls, config: LegcfConfig) -> bool:
        return not config.tanh and not config.item_bias and config.update == "none"

    def table(self) -> FloatArray:
        rows = np.zeros((self.num_entities, self.config.dim), dtype=np.float32)
        compose_rows(*map(self.array, ("indices", "weights", "codebook")), rows[self.first_coded :])
        return rows

    def item_rows(self) -> FloatArray:
        first = self.num_users - self.first_coded
        rows = np.zeros((self.num_items, self.config.dim), dtype=np.float32)
        compose_rows(self.array("indices")[first:], self.array("weights")[first:], self.array("codebook"), rows)
        return rows

    def input_rows(self) -> FloatArray:
        table = self.table()
        return np.concatenate([table, self.array("codebook")]) if self.config.meta_nodes else table

    def pack(self, state: Arrays) -> None:
        size = self.num_buckets
        state["indices"] = state["indices"].astype(
            np.uint8 if size <= 2**8 else np.uint16 if size <= 2**16 else np.int32
        )


@njit(cache=True, parallel=True, fastmath={"contract"})
def compose_rows(indices, weights, codebook, rows):  # type: ignore[no-untyped-def]
    """Add one meta-embedding after the other, each product and sum rounded once, as torch does it."""
    for row in prange(len(indices)):
        for entry in range(indices.shape[1]):
            weight, source = weights[row, entry], codebook[indices[row, entry]]
            for column in range(rows.shape[1]):
                rows[row, column] += weight * source[column]
