# SPDX-License-Identifier: Apache-2.0
"""Compose rows of two small tables, addressed by the quotient and the remainder of an entity's number (QR).

Shi et al., "Compositional Embeddings Using Complementary Partitions for Memory-Efficient Recommendation Systems", KDD
2020. No two entities have both numbers in common, so every entity has a vector of its own.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import solved, stored_values, too_small
from legcf_studies.methods.common import PAPER_TRAINING, SMALL_TRAINING, ComparisonRow, ensure_within, ones_at
from legcf_studies.methods.composed.fitted import FITTED, FittedConfig, start_from_als

_ROW_DEVIATION = 0.1  # of a composed entry at the start, as in LightGCN's table


class QrConfig(FittedConfig):
    name: Literal["qr"] = "qr"
    dim: int = Field(128, ge=1, description="width of a composed row")
    op: Literal["mult", "add", "concat"] = Field("mult", description="how the two rows are made one")
    partition: Literal["remainder", "balanced"] = Field(
        "remainder", description="entity // m with entity % m; or two tables of m rows, entity // ⌈N/m⌉ with entity % m"
    )
    m: int | None = Field(None, ge=1, description="rows of the remainder table; as many as the budget allows if null")

    @model_validator(mode="after")
    def _halves(self) -> "QrConfig":
        if self.op == "concat" and self.dim % 2:
            raise ValueError(f"op = concat joins two halves, so dim = {self.dim} must be even")
        return self

    @property
    def table_width(self) -> int:
        return self.dim // 2 if self.op == "concat" else self.dim


class QuotientRemainder(EmbeddingLayer[QrConfig]):
    """Give e_x = op(W[quotient of x], W[Q + remainder of x]); both tables are one matrix, quotient rows first."""

    Config = QrConfig
    summary = "two small tables addressed by quotient and remainder"
    citation = "Shi et al., Compositional Embeddings Using Complementary Partitions, KDD 2020"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {
        "qr": ComparisonRow("QR, product", overrides={"method": {"op": "mult", "partition": "remainder"}}),
        "qr-sum": ComparisonRow("QR, sum", overrides={"method": {"op": "add", "partition": "balanced"}}, fitted=FITTED),
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The original's product, in the LEGCF paper's loop.
        "paper": {"method": {"op": "mult"}, "training": PAPER_TRAINING},
        # A sum is linear, so it trains on the propagated basis; tables of equal length share their rows evenly.
        "default": {"method": {"op": "add", "partition": "balanced"}, "training": {**SMALL_TRAINING, "epochs": 6}},
    }

    def __init__(self, config: QrConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self._num_quotients, remainders = _table_rows(self.config, self.num_entities)
        self.weight = nn.Parameter(torch.zeros(self._num_quotients + remainders, config.table_width))

    @classmethod
    def sized(cls, config: QrConfig, num_users: int, num_items: int) -> QrConfig:
        entities = num_users + num_items
        if config.m is None:
            allowed = stored_values(config.budget or "legcf", entities)
            config = config.model_copy(update={"m": _most_rows(config, entities, allowed)})
        elif config.m > entities:
            raise UserError(f"method.m = {config.m} is more than the {entities} users and items; lower m.")
        ensure_within(config.budget, entities, sum(_table_rows(config, entities)) * config.table_width)
        return config

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.config.start == "als":
            start_from_als(self, train, rng)
            return
        # Signed draws: with the positive ones of the original's code, all products would start large and alike.
        deviation = {"mult": _ROW_DEVIATION**0.5, "add": _ROW_DEVIATION / 2**0.5, "concat": _ROW_DEVIATION}
        self.weight.data.copy_(normal(tuple(self.weight.shape), deviation[self.config.op], rng))

    def table_rows(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the two rows of `weight` that make each entity."""
        m = solved(self.config.m)
        block = m if self.config.partition == "remainder" else -(-self.num_entities // m)
        return ids // block, self._num_quotients + ids % m

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        quotient, remainder = (nn.functional.embedding(row, self.weight) for row in self.table_rows(ids))
        if self.config.op == "concat":
            return torch.cat([quotient, remainder], dim=1)
        return quotient * remainder if self.config.op == "mult" else quotient + remainder

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.config.op != "add":
            return None
        columns = torch.stack(self.table_rows(torch.arange(self.num_entities)), dim=1).numpy()
        return ones_at(columns, len(self.weight)), self.weight


def _table_rows(settings: QrConfig, entities: int) -> tuple[int, int]:
    """Return the numbers of rows of the quotient table and of the remainder table."""
    m = solved(settings.m)
    return (m if settings.partition == "balanced" else -(-entities // m)), m


def _most_rows(settings: QrConfig, entities: int, allowed: int) -> int:
    """Return the m that uses most of the budget; of two mirror solutions the one with more remainders."""
    every = np.arange(1, entities + 1)
    rows = every + (every if settings.partition == "balanced" else -(-entities // every))
    fits = rows * settings.table_width <= allowed
    if not fits.any():
        raise too_small(allowed, int(rows.min()) * settings.table_width)
    return int(every[fits][::-1][np.argmax(rows[fits][::-1])])
