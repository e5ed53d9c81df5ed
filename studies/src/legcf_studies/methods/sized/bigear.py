# SPDX-License-Identifier: Apache-2.0
"""Keep one bit a value of every layer of LightGCN, learned from a teacher (BiGeaR).

Chen et al., "Learning Binarized Graph Representations with Multi-faceted Quantization Reinforcement for Top-K
Recommendation", KDD 2022. A row is the layers side by side, each weighted by λ_l = (l + 1) / (L + 1) and written as its
signs and its mean size: x → sign(x) · mean|x|. The table travels over the graph in here, so the codes are final vectors
and serving needs no graph.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from legcf.core.arrays import FloatArray
from legcf.core.config import BackboneConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, StateDict, normal
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf.graph.adjacency import bipartite, normalised
from legcf.graph.basis import polynomial
from legcf.graph.operator import Operator
from legcf_studies.methods.common import largest_within, take_saved_shapes
from legcf_studies.methods.composed.fitted import FittedConfig, factorised_rows

_SCALE_BYTES = 4
_WIDEST = 4096
_LEAST_SLOPE = 1e-8


class BigearConfig(FittedConfig):
    name: Literal["bigear"] = "bigear"
    dim: int = Field(128, ge=1, description="width of a layer, unless a budget decides it")
    layers: int = Field(2, ge=0, description="L, how far rows travel; every layer has its bits")
    teacher_epochs: int = Field(100, ge=0, description="epochs of the teacher, which has all its values")
    distil: float = Field(1.0, ge=0, description="weight of what the teacher's first items teach")
    distil_items: int = Field(100, ge=1, description="R, first items of the teacher for a user and layer")
    distil_decay: float = Field(0.1, ge=0, description="λ₂, how much less each further of them counts")
    distil_users: int = Field(512, ge=1, description="users of a step who are taught so")

    def block_values(self, dim: int) -> int:
        """Return the stored values of an entity: bits as 32nds of one, and a scale a layer."""
        return (self.layers + 1) * (-(-dim // 32) + 1)


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(values)
        return torch.where(values >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (values,) = ctx.saved_tensors
        return gradient * torch.clamp(torch.exp(-values.square()) / np.pi**0.5, _LEAST_SLOPE, 1)


class Bigear(EmbeddingLayer[BigearConfig]):
    """Give the layers of the teacher's table, then their signs with a scale each, side by side."""

    Config = BigearConfig
    summary = "one bit a value and layer of LightGCN with a scale, learned from a full teacher"
    citation = "Chen et al., Learning Binarized Graph Representations with Multi-faceted Quantization, KDD 2022"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release's settings for Gowalla. Codes come last, so the last weights are kept.
        "paper": {
            "method": {"dim": 256}, "backbone": {"layers": 0},
            "training": {"negatives": 1, "batch_size": 2048, "learning_rate": 1e-3, "l2": 5e-5, "keep": "last"},
        },
        # Validation NDCG@20 on LastFM 0.1338; from a factorisation with the rates of `full` 0.1253 at best.
        "default": {
            "method": {"teacher_epochs": 20}, "backbone": {"layers": 0},
            "training": {**DEFAULT_TRAINING, "keep": "last"}, "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    indptr: torch.Tensor
    items: torch.Tensor
    coded: torch.Tensor
    signs: torch.Tensor
    scales: torch.Tensor

    def __init__(self, config: BigearConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self._blocks = config.layers + 1
        self.weight = nn.Parameter(torch.zeros(self.num_entities, self.config.dim))
        self._trained_values = self.weight.numel()
        self.register_buffer("indptr", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("items", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("coded", torch.zeros((), dtype=torch.bool))
        self.register_buffer("signs", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(0))
        self._operator: Operator | None = None
        self.taught: tuple[torch.Tensor, torch.Tensor] | None = None  # a step's users and their items, by the recipe
        take_saved_shapes(self, "weight", "indptr", "items", "signs", "scales")

    @classmethod
    def sized(cls, config: BigearConfig, num_users: int, num_items: int) -> BigearConfig:
        if config.budget is None:
            return config
        entities, blocks = num_users + num_items, config.layers + 1

        def stored(dim: int) -> int:
            return entities * (-(-blocks * dim // 8) + _SCALE_BYTES * blocks) + 1

        dim = largest_within(config.budget, entities, _WIDEST, lambda dim: entities * config.block_values(dim), stored)
        return config.model_copy(update={"dim": dim})

    @classmethod
    def check(cls, config: BigearConfig, backbone: BackboneConfig) -> None:
        if backbone.weighs_added_nodes or backbone.name != "lightgcn":
            raise UserError("The rows of bigear have travelled already: it goes with --set backbone.layers=0.")

    @property
    def frozen(self) -> bool:
        return self.weight.numel() == 0

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.indptr, self.items = torch.from_numpy(train.indptr.copy()), torch.from_numpy(train.items.copy())
        self._operator = None
        if self.config.start == "als":
            self.weight.data.copy_(torch.from_numpy(factorised_rows(train, self.config, self.config.dim, rng)))
        else:
            self.weight.data.copy_(normal((self.num_entities, self.config.dim), 0.1, rng))

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        if self.frozen:
            return self._decoded(ids)
        distinct, position = torch.unique(ids, return_inverse=True)
        travelled = polynomial(self._graph(), self.weight, np.eye(self._blocks, dtype=np.float32), distinct.numpy())
        blocks = travelled.view(len(distinct), self._blocks, -1) * self._layer_weights()[:, None]
        if self.coded:
            blocks = self._binarised(blocks)
        return blocks.flatten(1)[position]

    def _layer_weights(self) -> torch.Tensor:
        return torch.arange(1, self._blocks + 1) / self._blocks

    @staticmethod
    def _binarised(blocks: torch.Tensor) -> torch.Tensor:
        signs: torch.Tensor = _Sign.apply(blocks)  # type: ignore[no-untyped-call]
        return signs * blocks.abs().mean(dim=2, keepdim=True)

    def _graph(self) -> Operator:
        if self._operator is None:
            pairs = Interactions(self.indptr.numpy(), self.items.numpy(), self.num_items)
            self._operator = Operator(normalised(bipartite(pairs)), symmetric=True)
        return self._operator

    def layer_vectors(self) -> list[tuple[FloatArray, FloatArray]]:
        """Return the users' and items' vectors of every layer."""
        with torch.no_grad():
            blocks = self.table().view(self.num_entities, self._blocks, -1).numpy()
        return [(block[: self.num_users], block[self.num_users :]) for block in np.moveaxis(blocks, 1, 0)]

    def penalty(self) -> torch.Tensor | None:
        """Return Σ_layers the mean of softplus(−score) · exp(−λ₂ · rank) over the teacher's first items."""
        if self.taught is None or not self.config.distil:
            return None
        users, items = self.taught  # users, and layers × users × R
        table = self.table().view(self.num_entities, self._blocks, -1)
        fading = torch.exp(-self.config.distil_decay * torch.arange(1, items.shape[2] + 1))
        losses = []
        for layer, first in enumerate(items):
            scores = torch.einsum("ud,urd->ur", table[users, layer], table[self.num_users + first, layer])
            losses.append((nn.functional.softplus(-scores) * fading).mean())
        return self.config.distil * torch.stack(losses).sum()

    @torch.no_grad()
    def freeze(self) -> None:
        """Keep signs and scales, and drop table and graph."""
        blocks = self.table().view(self.num_entities, self._blocks, -1)
        self.scales = blocks.abs().mean(dim=2)
        self.signs = torch.from_numpy(np.packbits(blocks.flatten(1).numpy() > 0, axis=1))
        self.weight.grad = None
        self.weight.data, self._operator = torch.zeros(0), None
        self.indptr, self.items = self.indptr[:0], self.items[:0]

    def _decoded(self, ids: torch.Tensor) -> torch.Tensor:
        bits = np.unpackbits(self.signs[ids].numpy(), axis=1, count=self._blocks * self.config.dim)
        signs = torch.from_numpy(bits.astype(np.float32) * 2 - 1).view(len(ids), self._blocks, -1)
        return (signs * self.scales[ids][:, :, None]).flatten(1)

    def num_params(self) -> int:
        """Count bits as 32nds of a value, and the scales."""
        return self.num_entities * self.config.block_values(self.config.dim)

    def total_trainable(self) -> int:
        return self._trained_values

    def unpack(self, state: StateDict) -> None:
        """Forget the graph that was there before the one that is loaded."""
        self._operator = None
