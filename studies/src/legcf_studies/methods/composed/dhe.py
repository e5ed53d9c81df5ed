# SPDX-License-Identifier: Apache-2.0
"""Hash an entity's number many times and make a row of the hashes by a network (DHE).

Kang et al., "Learning to Embed Categorical Features without Embedding Tables for Recommendation", KDD 2021. Nothing is
stored for an entity; all that is learned is the network.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow, ensure_within
from legcf_studies.methods.composed.hashing import draw_constants, hashed

_HASH_RANGE = 10**6
_ENCODED_AT_ONCE = 8192
_CODES_WIDTH = 256  # of the network where only the codes are counted


class DheConfig(Budgeted):
    name: Literal["dhe"] = "dhe"
    dim: int = Field(128, ge=1, description="width of a row")
    hashes: int = Field(128, ge=1, description="k, hash functions; with count = codes a budget decides it")
    encoding: Literal["uniform", "gaussian"] = Field("uniform", description="how hash values become numbers")
    layers: int = Field(2, ge=1, description="hidden layers of the network")
    hidden: int | None = Field(None, ge=1, description="width of the hidden layers; what the budget allows if null")
    count: Literal["network", "codes"] = Field(
        "network", description="#Param: the network's weights, or k codes per entity as the LEGCF paper seems to count"
    )

    @model_validator(mode="after")
    def _pairs(self) -> "DheConfig":
        if self.encoding == "gaussian" and self.hashes % 2:
            raise ValueError(f"encoding = gaussian takes hashes in pairs, so hashes = {self.hashes} must be even")
        return self


class DeepHash(EmbeddingLayer[DheConfig]):
    """Give e_x = network(h_1(x), …, h_k(x)); hidden layers are Linear, batch normalisation, Mish."""

    Config = DheConfig
    summary = "hash codes of an entity's number, decoded by a network; no table at all"
    citation = "Kang et al., Learning to Embed Categorical Features without Embedding Tables, KDD 2021"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"dhe": ComparisonRow("DHE", "one size", within_budget=False)}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # 12 codes per entity are the size that the LEGCF paper reports.
        "paper": {"method": {"hashes": 12, "count": "codes"}, "training": PAPER_TRAINING},
        # The original's 1,024 hashes: the more of them, the less alike codes are, and the sooner the network learns. A
        # step costs entities × weights whatever the shape; one hidden layer keeps few activations.
        "default": {
            "method": {"hashes": 1024, "layers": 1},
            "training": {**DEFAULT_TRAINING, "learning_rate": 5e-3},
            "ranking": DEFAULT_RANKING,
        },
    }

    hash_constants: torch.Tensor

    def __init__(self, config: DheConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        widths = _widths(self.config, solved(self.config.hidden))
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(wide, narrow)) for narrow, wide in pairwise(widths))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(wide)) for wide in widths[1:])
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(wide)) for wide in widths[1:-1])
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(wide)) for wide in widths[1:-1])
        self.register_buffer("hash_constants", torch.ones(2, self.config.hashes, dtype=torch.int64))
        self._every_encoding: torch.Tensor | None = None
        self.register_load_state_dict_post_hook(lambda layer, _: setattr(layer, "_every_encoding", None))  # type: ignore[no-untyped-call]

    @property
    def width(self) -> int:
        return self.config.dim

    @classmethod
    def sized(cls, config: DheConfig, num_users: int, num_items: int) -> DheConfig:
        entities = num_users + num_items
        if config.count == "codes":
            return cls._sized_by_codes(config, entities)
        if config.hidden is None:
            allowed = stored_values(config.budget or "legcf", entities)
            hidden = bisect_right(range(1, allowed + 1), allowed, key=lambda width: _network_values(config, width))
            if not hidden:
                raise too_small(allowed, _network_values(config, 1))
            config = config.model_copy(update={"hidden": hidden})
        ensure_within(config.budget, entities, _network_values(config, solved(config.hidden)))
        return config

    @classmethod
    def _sized_by_codes(cls, settings: DheConfig, entities: int) -> DheConfig:
        settings = settings.model_copy(update={"hidden": settings.hidden or _CODES_WIDTH})
        if settings.budget is None:
            return settings
        allowed = stored_values(settings.budget, entities)
        step = 2 if settings.encoding == "gaussian" else 1
        hashes = allowed // entities // step * step
        if hashes == 0:
            raise too_small(allowed, step * entities)
        return settings.model_copy(update={"hashes": hashes})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.hash_constants.copy_(draw_constants(self.config.hashes, rng))
        self._every_encoding = None
        for weight in self.weights:
            weight.data.copy_(normal(tuple(weight.shape), (2 / weight.shape[1]) ** 0.5, rng))
        # The first table is as large as LightGCN's and has no common vector, which the graph would make popularity.
        with torch.no_grad():
            self.biases[-1].zero_()
            table = self.table()
            scale = 0.1 / (table - table.mean(dim=0)).std().clamp(min=1e-6)
            self.weights[-1].mul_(scale)
            self.biases[-1].copy_(-scale * table.mean(dim=0))

    def encoding(self, ids: torch.Tensor) -> torch.Tensor:
        """Return k numbers per entity: even in [−1, 1], or Box and Muller's normal pairs."""
        numbers = hashed(ids, self.hash_constants, _HASH_RANGE).double()
        if self.config.encoding == "uniform":
            return (2 * numbers / (_HASH_RANGE - 1) - 1).float()
        even = (numbers + 0.5) / _HASH_RANGE
        half = self.config.hashes // 2
        radius, angle = (-2 * even[:, :half].log()).sqrt(), 2 * torch.pi * even[:, half:]
        return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1).float()

    def table(self) -> torch.Tensor:
        """Return all rows; the normalisation always has the statistics of all entities, for the inputs never change."""
        if self._every_encoding is None:
            parts = torch.split(torch.arange(self.num_entities), _ENCODED_AT_ONCE)  # integers take four times as much
            self._every_encoding = torch.cat([self.encoding(ids) for ids in parts])
        rows = self._every_encoding
        for layer in range(len(self.scales)):
            rows = nn.functional.linear(rows, self.weights[layer], self.biases[layer])
            rows = nn.functional.batch_norm(rows, None, None, self.scales[layer], self.shifts[layer], training=True)
            rows = nn.functional.mish(rows, inplace=False)
        return nn.functional.linear(rows, self.weights[-1], self.biases[-1])

    def num_params(self) -> int:
        return self.num_entities * self.config.hashes if self.config.count == "codes" else super().num_params()


def _widths(settings: DheConfig, hidden: int) -> list[int]:
    return [settings.hashes, *[hidden] * settings.layers, settings.dim]


def _network_values(settings: DheConfig, hidden: int) -> int:
    """Count weights and biases of all layers, and scale and shift of every hidden unit."""
    linear: int = sum((narrow + 1) * wide for narrow, wide in pairwise(_widths(settings, hidden)))
    return linear + 2 * settings.layers * hidden
