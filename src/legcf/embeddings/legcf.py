"""LEGCF: a codebook of meta-embeddings and a sparse assignment, joined to the graph as nodes.

Liang et al., "Lightweight Embeddings for Graph Collaborative Filtering", SIGIR 2024. Symbols: E_meta (c × d) is
`codebook`, S (N × c, t non-zeros a row) is `assignment`, and E = S · E_meta (Eq. 1).
"""

from typing import Any, ClassVar, Literal, cast

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.assignment.assignment import Assignment
from legcf.assignment.dictionary import balance, learn
from legcf.assignment.initialise import from_anchors, random_anchors
from legcf.configuration import Frozen
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, bytes_of, normal, xavier_uniform
from legcf.errors import UserError
from legcf.factorisation.als import AlsSettings, factorise
from legcf.graph.adjacency import bipartite, expanded, normalised
from legcf.graph.partition import communities


class LegcfConfig(Frozen):
    name: Literal["legcf"] = "legcf"
    c: int = Field(500, ge=1, description="meta-embeddings in the codebook")
    d: int = Field(128, ge=1, description="width of a meta-embedding")
    t: int = Field(2, ge=1, description="meta-embeddings an entity is composed of")
    start: Literal["metis", "random", "als"] = Field(
        "metis",
        description="first assignment: METIS or random anchors, or a sparse-coded factorisation with its codebook",
    )
    als: AlsSettings = Field(AlsSettings(), description="settings of the factorisation that a warm start codes")
    score_scale: float = Field(10.0, gt=0, description="a warm start multiplies the factorisation's scores by this")
    signed: bool = Field(False, description="let a warm start's weights be negative; only with backbone.layers = 0")
    anchor_weight: float = Field(0.5, ge=0, le=1, description="w*, the weight of an entity's anchor at the start")
    distinct_others: bool = Field(False, description="draw an entity's other t − 1 meta-embeddings without replacement")
    codebook: Literal["xavier", "normal"] = Field("xavier", description="how E_meta is drawn: Xavier, or N(0, 1)")
    normalise: Literal["once", "twice"] = Field(
        "once", description="normalise the expanded graph, or the user–item block before that as well"
    )
    tanh: bool = Field(False, description="squash composed rows by tanh, as the release does; rules out the basis")
    item_bias: bool = Field(
        False, description="learn a bias for every item, as the release does; not counted in #Param"
    )
    update: Literal["pinv", "matching-pursuit", "none"] = Field(
        "matching-pursuit", description="solver of the assignment update; none ends after pretraining"
    )
    update_every: int = Field(1, ge=1, description="m, epochs between assignment updates in the second stage")
    update_at: Literal["end", "start"] = Field("end", description="update after an epoch (Alg. 1) or before it")
    update_gate: bool = Field(False, description="keep an update only if validation does not fall")

    @model_validator(mode="after")
    def _fits(self) -> "LegcfConfig":
        if self.t > self.c:
            raise ValueError(f"t = {self.t} meta-embeddings an entity cannot be chosen from c = {self.c}; lower t")
        return self


class Legcf(EmbeddingLayer):
    """E = S · E_meta, with the meta-embeddings as c further nodes of the graph."""

    Config = LegcfConfig
    summary = "codebook of meta-embeddings with a sparse assignment learned in closed form"
    citation = "Liang et al., Lightweight Embeddings for Graph Collaborative Filtering, SIGIR 2024"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The text: Xavier, one normalisation, S ≥ 0, Alg. 1, 5 negatives, about 2,048 triplets a step.
        "paper": {
            "method": {"anchor_weight": 0.5, "update": "pinv"},
            "training": {
                "batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5", "continue_from": "last",
            },
        },
        # The release: tanh, item bias, two normalisations, N(0, 1), w* = 0.9, uniform users, clip ± 3.
        "official": {
            "method": {
                "anchor_weight": 0.9, "distinct_others": True, "codebook": "normal", "normalise": "twice",
                "tanh": True, "item_bias": True, "update": "pinv", "update_at": "start",
            },
            "training": {
                "batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5", "order": "user",
                "gradient_clip": 3.0, "continue_from": "last",
            },
        },
        "default": {
            "method": {"update": "matching-pursuit"},
            "training": {
                "batch_size": 8192, "learning_rate": 1e-2, "epochs": 20, "patience": 3, "validation_users": 10_000,
            },
        },
    }  # fmt: skip

    indices: torch.Tensor
    weights: torch.Tensor

    def __init__(self, config: LegcfConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        if config.c > self.num_entities:
            raise UserError(
                f"method.c = {config.c} meta-embeddings are more than the {self.num_entities} users and items; lower c."
            )
        self.codebook = nn.Parameter(torch.zeros(config.c, config.d))
        if config.item_bias:
            self.item_bias = nn.Parameter(torch.zeros(num_items))
        self.register_buffer("indices", torch.zeros(self.num_entities, config.t, dtype=torch.int32))
        self.register_buffer("weights", torch.zeros(self.num_entities, config.t))

    @property
    def settings(self) -> LegcfConfig:
        return cast(LegcfConfig, self.config)

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.indices.numpy(), self.weights.numpy(), self.settings.c)

    @assignment.setter
    def assignment(self, assignment: Assignment) -> None:
        self.indices.copy_(torch.from_numpy(assignment.indices))
        self.weights.copy_(torch.from_numpy(assignment.weights))

    @classmethod
    def check(cls, config: Frozen, backbone: Frozen) -> None:
        if cast(LegcfConfig, config).signed and getattr(backbone, "layers", 1) > 0:
            raise UserError("method.signed = true puts negative weights into the graph; set backbone.layers=0 with it.")

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.settings.start == "als":
            self._start_warm(train, rng)
        else:
            self._start_from_anchors(train, rng)
        if self.item_bias is not None:
            self.item_bias.data.copy_(normal((self.num_items,), 1.0, rng))

    def _start_from_anchors(self, train: Interactions, rng: np.random.Generator) -> None:
        settings = self.settings
        if settings.start == "metis":
            anchors = communities(bipartite(train), settings.c, seed=int(rng.integers(2**31)))
        else:
            anchors = random_anchors(self.num_entities, settings.c, rng)
        self.assignment = from_anchors(
            anchors, settings.c, settings.t, settings.anchor_weight, rng, not settings.distinct_others
        )
        shape = (settings.c, settings.d)
        drawn = xavier_uniform(shape, rng) if settings.codebook == "xavier" else normal(shape, 1.0, rng)
        self.codebook.data.copy_(drawn)

    def _start_warm(self, train: Interactions, rng: np.random.Generator) -> None:
        """Code a factorisation of the training pairs: S and E_meta such that S · E_meta is nearly its table."""
        settings = self.settings
        users, items = factorise(train, settings.d, rng, settings.als, quiet=False)
        users, items, metric = balance(users, items)
        codebook, assignment = learn(
            np.concatenate([users, items]), settings.c, settings.t, rng, nonnegative=not settings.signed, quiet=False
        )
        # S and E_meta share one free scale: weights of mean square 1 are edges as strong as an interaction.
        used = assignment.weights[assignment.weights != 0]
        scale = float(np.sqrt(np.square(used).mean()))
        self.assignment = Assignment(assignment.indices, assignment.weights / scale, settings.c)
        self.codebook.data.copy_(torch.from_numpy(codebook * metric * scale * np.sqrt(settings.score_scale)))

    def table(self) -> torch.Tensor:
        return self._composed(self.indices, self.weights)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self._composed(self.indices[ids], self.weights[ids])

    def input_rows(self) -> torch.Tensor:
        """Eq. 6: the composed rows above the codebook."""
        return torch.cat([self.table(), self.codebook])

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        inner = normalised(adjacency) if self.settings.normalise == "twice" else adjacency
        return expanded(inner, self.assignment.to_csr())

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.settings.tanh:
            return None
        own = sp.identity(self.settings.c, dtype=np.float32, format="csr")
        return sp.vstack([self.assignment.to_csr(), own], format="csr"), self.codebook

    def num_params(self) -> int:
        """c·d + t·N; the column indices of S are not counted."""
        return self.codebook.numel() + self.weights.numel()

    def storage_bytes(self) -> int:
        column_bytes = 1 if self.settings.c <= 2**8 else 2 if self.settings.c <= 2**16 else 4
        return bytes_of(self.codebook, self.weights, self.item_bias) + self.indices.numel() * column_bytes

    def _composed(self, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        rows = nn.functional.embedding_bag(indices, self.codebook, per_sample_weights=weights, mode="sum")
        return torch.tanh(rows) if self.settings.tanh else rows
