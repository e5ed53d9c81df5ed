# SPDX-License-Identifier: Apache-2.0
"""Compose two small tables by quotient and remainder, each pruned by learned thresholds (CERP).

Liang et al., "Learning Compact Compositional Embeddings via Regularized Pruning for Recommendation", ICDM 2023. With b
buckets, entity x has the row x mod b of P and the row ⌊x / ⌈N/b⌉⌋ of Q, and E0 is their sum after soft thresholding. In
the search −γ‖tanh(K·E0)‖² over a batch's rows keeps composed vectors from becoming null.
"""

import math
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field

from legcf.core.errors import UserError
from legcf.embeddings.budget import solved, stored_values
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow
from legcf_studies.methods.sized.pep import PrunedLayer, PrunedTable, PruningConfig

_SPARSITY = 0.8  # where only a budget is set: tables of five times what is kept


class CerpConfig(PruningConfig):
    name: Literal["cerp"] = "cerp"
    buckets: int | None = Field(
        None, ge=1, description="b, rows of each table; if null so many that the budget is a fifth of the entries"
    )
    push: float = Field(1.0, ge=0, description="γ at the start, weight of what keeps composed rows from being null")
    push_factor: float = Field(0.5, ge=0, le=1, description="what γ is multiplied by per epoch")
    steepness: float = Field(100.0, gt=0, description="K, how soon tanh takes an entry for one that is not null")


class Cerp(PrunedLayer[CerpConfig]):
    """Give E0[x] = P̂[x mod b] + Q̂[⌊x / ⌈N/b⌉⌋]; P̂ and Q̂ are one pruned table, P above Q."""

    Config = CerpConfig
    summary = "two bucket tables added by quotient and remainder, pruned by learned thresholds, then retrained"
    citation = "Liang et al., Learning Compact Compositional Embeddings via Regularized Pruning, ICDM 2023"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"cerp": ComparisonRow("CERP")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release, but for its search with 10 pairs per step: thresholds start nearer instead.
        "official": {
            "method": {"dim": 128, "initial": "xavier", "search_epochs": 50},
            "training": {"batch_size": 2048, "learning_rate": 1e-3, "l2": 5e-5, "monitor": "ndcg@5", "patience": 3},
        },
        "paper": {"method": {"dim": 128, "initial": "xavier", "search_epochs": 50}, "training": PAPER_TRAINING},
        "default": {
            "method": {
                "threshold_initial": -5.0, "threshold_final": 4.0, "threshold_decay": 0.05, "threshold_epochs": 8.0,
                "search_rate": 2e-3, "decay": 0.0, "search_epochs": 10, "push": 1e-3,
            },
            "training": {**DEFAULT_TRAINING, "epochs": 20}, "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    def __init__(self, config: CerpConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self._buckets = solved(self.config.buckets)
        self._share = -(-self.num_entities // self._buckets)
        self.pruned = PrunedTable((self._buckets, self._buckets), config, "entity-dim")
        self.pushed: tuple[torch.Tensor, float] | None = None  # the step's entities and γ, set by the search

    @classmethod
    def sized(cls, config: CerpConfig, num_users: int, num_items: int) -> CerpConfig:
        entities = num_users + num_items
        allowed = config.max_entries or stored_values(config.budget or "legcf", entities)
        buckets = config.buckets
        if buckets is None:  # and never so few that two entities share both rows
            needed = math.ceil(allowed / (1 - _SPARSITY) / (2 * config.dim))
            buckets = min(max(needed, math.isqrt(entities - 1) + 1), entities)
        elif buckets > entities:
            raise UserError(f"method.buckets = {buckets:,} are more than the {entities:,} users and items.")
        entries = 2 * buckets * config.dim
        if config.max_entries is not None and config.max_entries > entries:
            raise UserError(
                f"method.max_entries = {config.max_entries:,} is more than the {entries:,} entries of the tables."
            )
        return config.model_copy(update={"buckets": buckets, "max_entries": min(allowed, entries)})

    def table_rows(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of P and of Q, in the one table that holds both."""
        return ids % self._buckets, self._buckets + ids // self._share

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        both, (remainder, quotient) = self.pruned(), self.table_rows(ids)
        rows: torch.Tensor = both[remainder] + both[quotient]
        return rows

    def penalty(self) -> torch.Tensor | None:
        if self.pushed is None:
            return None
        entities, weight = self.pushed
        return -weight * torch.tanh(self.config.steepness * self.rows(entities)).square().sum()
