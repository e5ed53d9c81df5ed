# SPDX-License-Identifier: Apache-2.0
"""Give the frequent rows of their own and the rest two hashed rows each (double hashing).

Zhang et al., "Model Size Reduction Using Frequency Based Double Hashing for Recommender Systems", RecSys 2020.
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
from legcf_studies.methods.common import PLAIN_PRESETS, ComparisonRow, ensure_within, ones_at
from legcf_studies.methods.composed.fitted import FITTED, FittedConfig, start_from_als
from legcf_studies.methods.composed.hashing import draw_constants, hashed


class DoubleHashConfig(FittedConfig):
    name: Literal["double-hash"] = "double-hash"
    dim: int = Field(128, ge=1, description="width of a row")
    combine: Literal["shared", "sum", "concat"] = Field(
        "shared",
        description="sum of two rows of one table, or of one row of each of two tables, or two halves side by side",
    )
    private_share: float = Field(0.5, ge=0, le=1, description="share of the budget for rows of the frequent")
    private_rows: int | None = Field(None, ge=0, description="F, entities with own rows; from the budget if null")
    buckets: int | None = Field(None, ge=0, description="rows that a hash chooses from; from the budget if null")
    ranked: Literal["together", "apart"] = Field(
        "together", description="most frequent of all entities, or of users and of items in proportion to their numbers"
    )

    @model_validator(mode="after")
    def _halves(self) -> "DoubleHashConfig":
        if self.combine == "concat" and self.dim % 2:
            raise ValueError(f"combine = concat joins two halves, so dim = {self.dim} must be even")
        return self

    @property
    def rows_a_bucket(self) -> int:
        return 2 if self.combine == "sum" else 1


class DoubleHash(EmbeddingLayer[DoubleHashConfig]):
    """Give e_x = W[rank of x] for the F most frequent, else W[F + h₁(x)] + W[F + h₂(x)], all in one matrix.

    With two tables the second follows the first; with halves a row holds one half of each table.
    """

    Config = DoubleHashConfig
    summary = "own rows for the most frequent, two hashed rows for each of the others"
    citation = "Zhang et al., Model Size Reduction Using Frequency Based Double Hashing, RecSys 2020"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {
        "double-hash": ComparisonRow("double hashing", fitted=FITTED)
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = PLAIN_PRESETS

    frequent: torch.Tensor
    hash_constants: torch.Tensor

    def __init__(self, config: DoubleHashConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.num_private, self.num_buckets = solved(self.config.private_rows), solved(self.config.buckets)
        rows = self.num_private + self.config.rows_a_bucket * self.num_buckets
        self.weight = nn.Parameter(torch.zeros(rows, config.dim))
        self.register_buffer("frequent", torch.zeros(self.num_private, dtype=torch.int32))
        self.register_buffer("hash_constants", torch.ones(2, 2, dtype=torch.int64))

    @classmethod
    def sized(cls, config: DoubleHashConfig, num_users: int, num_items: int) -> DoubleHashConfig:
        entities, each = num_users + num_items, config.rows_a_bucket
        if config.private_rows is None or config.buckets is None:
            allowed = stored_values(config.budget or "legcf", entities)
            rows = allowed // config.dim
            private, buckets = config.private_rows, config.buckets
            if private is None:
                left = rows - each * (1 if buckets is None else buckets)
                private = max(0, min(entities, left, round(config.private_share * rows)))
            if buckets is None:
                buckets = max(0, min(entities - private, (rows - private) // each))
                if buckets == 0 and private < entities:
                    raise too_small(allowed, ((config.private_rows or 0) + each) * config.dim)
            config = config.model_copy(update={"private_rows": private, "buckets": buckets})
        private, buckets = solved(config.private_rows), solved(config.buckets)
        if private > entities:
            raise UserError(f"method.private_rows = {private} is more than the {entities} users and items; lower it.")
        if private < entities and buckets == 0:
            raise UserError(f"method.buckets = 0 leaves {entities - private} users and items without a row; raise it.")
        ensure_within(config.budget, entities, (private + each * buckets) * config.dim)
        return config

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.frequent.copy_(torch.from_numpy(np.sort(self._most_frequent(train))))
        self.hash_constants.copy_(draw_constants(2, rng))
        if self.config.start == "als":
            start_from_als(self, train, rng)
            return
        drawn = normal(tuple(self.weight.shape), 0.1, rng)
        if self.config.combine != "concat":
            drawn[self.num_private :] /= 2**0.5  # two of them make a row
        self.weight.data.copy_(drawn)

    def table_rows(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return who has a row of its own, and both rows of `weight` of each entity, which are then the same."""
        slot = torch.searchsorted(self.frequent, ids.to(self.frequent.dtype)).clamp(max=max(self.num_private - 1, 0))
        owns = self.frequent[slot] == ids if self.num_private else torch.zeros(len(ids), dtype=torch.bool)
        first, second = (self.num_private + hashed(ids, self.hash_constants, max(self.num_buckets, 1))).T
        if self.config.combine == "sum":
            second = second + self.num_buckets
        return owns, torch.where(owns, slot, first), torch.where(owns, slot, second)

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        owns, first, second = self.table_rows(ids)
        left, right = (nn.functional.embedding(row, self.weight) for row in (first, second))
        if self.config.combine == "concat":
            half = self.config.dim // 2
            return torch.cat([left[:, :half], right[:, half:]], dim=1)
        return left + right * ~owns[:, None]

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.config.combine == "concat":
            return None
        owns, first, second = self.table_rows(torch.arange(self.num_entities))
        selection = ones_at(torch.stack([first, second], dim=1).numpy(), len(self.weight))
        own_rows = sp.diags_array(np.where(owns.numpy(), 0.5, 1).astype(np.float32))
        return sp.csr_matrix(own_rows @ selection), self.weight

    def _most_frequent(self, train: Interactions) -> np.ndarray:
        """Order by degree in training, ties by number."""
        degrees = np.concatenate([train.user_degrees, train.item_degrees])
        if self.config.ranked == "together":
            return np.argsort(-degrees, kind="stable")[: self.num_private]
        of_users = round(self.num_private * self.num_users / max(self.num_entities, 1))
        users = np.argsort(-train.user_degrees, kind="stable")[:of_users]
        items = np.argsort(-train.item_degrees, kind="stable")[: self.num_private - of_users]
        return np.concatenate([users, self.num_users + items])
