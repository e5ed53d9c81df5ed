# SPDX-License-Identifier: Apache-2.0
"""Prune a table whose every entry must exceed a learned threshold to stay (PEP).

Liu et al., "Learnable Embedding Sizes for Recommender Systems", ICLR 2021. Symbols: V is `pruned.values`, g(s) the
sigmoid of the threshold logits, V̂ = sign(V) ⊙ max(|V| − g(s), 0) (Eq. 5) is what the search trains. At the target
size the mask V̂ ≠ 0 is taken, and its entries are trained anew from their first values (the lottery ticket).
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field

from legcf.core.errors import UserError
from legcf.embeddings.base import ComparisonRow
from legcf.embeddings.budget import stored_values
from legcf.embeddings.presets import PAPER_TRAINING, SMALL_TRAINING
from legcf.embeddings.sized.pruned import Granularity, PrunedLayer, PrunedTable, PruningConfig


class PepConfig(PruningConfig):
    name: Literal["pep"] = "pep"
    granularity: Granularity = Field("entity-dim", description="what shares a threshold; field is users or items")


class Pep(PrunedLayer[PepConfig]):
    """Give E0 = V̂ in the search, M ⊙ V after it."""

    Config = PepConfig
    summary = "full table pruned by learned thresholds, survivors retrained from their first values"
    citation = "Liu et al., Learnable Embedding Sizes for Recommender Systems, ICLR 2021"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"pep": ComparisonRow("PEP")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release's scripts: Xavier, s from −15, Adam's own weight decay on everything, batches of 1024.
        "official": {
            "method": {"dim": 32, "initial": "xavier"},
            "training": {"negatives": 1, "batch_size": 1024, "learning_rate": 1e-3},
        },
        # LEGCF's loop around a table of 128.
        "paper": {"method": {"dim": 128, "initial": "xavier"}, "training": PAPER_TRAINING},
        # Few large batches: thresholds rise by the epoch, further than 0, and faster than entries can grow. A narrow
        # table leaves fewer rows without any value, and inner products learn longer than directions do.
        "default": {
            "method": {
                "dim": 16, "threshold_initial": -5.0, "threshold_final": 4.0, "threshold_decay": 0.05,
                "threshold_epochs": 4.0, "search_rate": 2e-3, "decay": 0.0, "search_epochs": 6,
            },
            "training": SMALL_TRAINING,
        },
    }  # fmt: skip

    def __init__(self, config: PepConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.pruned = PrunedTable((num_users, num_items), config, config.granularity)

    @classmethod
    def sized(cls, config: PepConfig, num_users: int, num_items: int) -> PepConfig:
        entries = (num_users + num_items) * config.dim
        if config.max_entries is None:
            allowed = stored_values(config.budget or "legcf", num_users + num_items)
            return config.model_copy(update={"max_entries": min(allowed, entries)})
        if config.max_entries > entries:
            raise UserError(
                f"method.max_entries = {config.max_entries:,} is more than the {entries:,} entries of the table."
            )
        return config

    def table(self) -> torch.Tensor:
        rows: torch.Tensor = self.pruned()
        return rows
