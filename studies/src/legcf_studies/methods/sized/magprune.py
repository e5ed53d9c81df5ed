# SPDX-License-Identifier: Apache-2.0
"""Prune the smallest values of a trained table, with no training after it (MagPrune).

The baseline of Tran et al., "A Thorough Performance Benchmarking on Lightweight Embedding-based Recommender Systems",
TOIS 2025. Every row keeps its m largest values; the others that stay are the largest of the whole table.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, smallest_type
from legcf.embeddings.budget import solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, largest_within, take_saved_shapes, xavier_uniform
from legcf_studies.methods.composed.fitted import FittedConfig, factorised_rows
from legcf_studies.methods.sized.pep import scattered


class MagPruneConfig(FittedConfig):
    name: Literal["magprune"] = "magprune"
    dim: int = Field(64, ge=1, description="width of the table before pruning")
    max_entries: int | None = Field(None, ge=1, description="most values that stay; what the budget allows if null")
    row_entries: int | None = Field(
        None, ge=0, description="m, values that every row keeps at least; chosen on validation pairs if null"
    )


class MagPrune(EmbeddingLayer[MagPruneConfig]):
    """Hold a full table while it is trained, then its largest values with their columns and the rows' lengths."""

    Config = MagPruneConfig
    summary = "full table whose smallest values are dropped after training; nothing is trained again"
    citation = "Tran et al., A Thorough Performance Benchmarking on Lightweight Embedding-based Recommenders, TOIS 2025"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # A table of 64 in the LEGCF paper's loop. Pruning comes last, so the last weights are kept.
        "paper": {"training": {**PAPER_TRAINING, "keep": "last"}},
        # Trained as a full table is; a narrow one loses less.
        "default": {
            "method": {"start": "als", "dim": 32},
            "training": {
                **DEFAULT_TRAINING, "learning_rate": 0.05, "scale_lr_by_rms": True, "epochs": 4, "user_power": 0.5,
                "keep": "last",
            },
            "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    columns: torch.Tensor
    lengths: torch.Tensor

    def __init__(self, config: MagPruneConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(self.num_entities, config.dim))
        self.register_buffer("columns", torch.zeros(0, dtype=smallest_type(config.dim)))
        self.register_buffer("lengths", torch.zeros(self.num_entities, dtype=smallest_type(config.dim + 1)))
        take_saved_shapes(self, "weight", "columns")

    @classmethod
    def sized(cls, config: MagPruneConfig, num_users: int, num_items: int) -> MagPruneConfig:
        entities = num_users + num_items
        entries = entities * config.dim
        if config.max_entries is None:
            each, lengths = 4 + smallest_type(config.dim).itemsize, entities * smallest_type(config.dim + 1).itemsize
            kept = largest_within(config.budget, entities, entries, int, lambda kept: each * kept + lengths)
            config = config.model_copy(update={"max_entries": kept})
        if (config.row_entries or 0) * entities > solved(config.max_entries):
            raise UserError(
                f"method.row_entries = {config.row_entries} for {entities:,} users and items are more than the"
                f" {config.max_entries:,} values that may stay; lower it."
            )
        return config

    @property
    def pruned(self) -> bool:
        return self.weight.ndim == 1

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.config.start == "drawn":
            self.weight.data.copy_(xavier_uniform((self.num_entities, self.config.dim), rng))
            return
        self.weight.data.copy_(torch.from_numpy(factorised_rows(train, self.config, self.config.dim, rng)))

    @torch.no_grad()
    def survivors(self, row_entries: int) -> torch.Tensor:
        """Return a mask of what stays: the m largest values of each row, then the largest of all others."""
        sizes = self.weight.abs()
        own = torch.topk(sizes, min(row_entries, self.config.dim), dim=1).indices
        sizes = sizes.scatter(1, own, torch.inf)
        kept = torch.topk(sizes.flatten(), solved(self.config.max_entries), sorted=False).indices
        return torch.zeros_like(sizes, dtype=torch.bool).view(-1).index_fill_(0, kept, True).view_as(sizes)

    @torch.no_grad()
    def prune(self, mask: torch.Tensor) -> None:
        """Keep only the marked values."""
        self.lengths.copy_(mask.sum(dim=1))
        self.columns = mask.nonzero()[:, 1].to(self.columns.dtype)
        self.weight.grad = None
        self.weight.data = self.weight.data[mask]

    def table(self) -> torch.Tensor:
        if not self.pruned:
            return self.weight
        return scattered(self.weight, self.columns, self.lengths, (self.num_entities, self.config.dim))

    def num_params(self) -> int:
        """Count values that stay; where they stand is not counted."""
        return self.weight.numel()

    def total_trainable(self) -> int:
        """Count the whole table, which is what training takes."""
        return self.num_entities * self.config.dim
