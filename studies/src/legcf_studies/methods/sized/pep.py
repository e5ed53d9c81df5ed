# SPDX-License-Identifier: Apache-2.0
"""Prune a table whose every entry must exceed a learned threshold to stay (PEP).

Liu et al., "Learnable Embedding Sizes for Recommender Systems", ICLR 2021. Symbols: V is `pruned.values`, g(s) the
sigmoid of the threshold logits, V̂ = sign(V) ⊙ max(|V| − g(s), 0) (Eq. 5) is what the search trains. At the target
size the mask V̂ ≠ 0 is taken, and its entries are trained anew from their first values (the lottery ticket).
CERP has its table, options and stages in common with PEP.
"""

from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import (
    EmbeddingLayer,
    normal,
    smallest_type,
)
from legcf.embeddings.budget import Budgeted, solved, stored_values
from legcf_studies.methods.common import (
    PAPER_TRAINING,
    SMALL_TRAINING,
    ComparisonRow,
    take_saved_shapes,
    xavier_uniform,
)

Granularity = Literal["global", "dim", "entity", "field", "field-dim", "entity-dim"]


class PruningConfig(Budgeted):
    """Hold the options that methods with learned thresholds share."""

    dim: int = Field(64, ge=1, description="width of the table before pruning")
    max_entries: int | None = Field(None, ge=1, description="most entries that survive; what the budget allows if null")
    initial: Literal["normal", "xavier"] = Field("normal", description="first values: N(0, 0.1²) or Xavier")
    reinitialise: bool = Field(False, description="retrain from freshly drawn values instead of the first ones")
    threshold_initial: float = Field(-15.0, description="threshold logits at the start")
    threshold_final: float = Field(0.0, description="threshold logits that weight decay draws towards")
    threshold_decay: float = Field(1e-5, ge=0, description="weight decay of the threshold logits, through Adam")
    threshold_epochs: float | None = Field(
        None, gt=0, description="epochs from first to final logits at Adam's full step; training.learning_rate if null"
    )
    decay: float = Field(1e-5, ge=0, description="weight decay of the table in the search, through Adam")
    search_rate: float | None = Field(
        None, gt=0, description="step size of Adam for the table in the search; training.learning_rate if null"
    )
    search_epochs: int = Field(100, ge=0, description="most epochs of the search; then the largest entries are kept")

    @model_validator(mode="after")
    def _rises(self) -> "PruningConfig":
        if self.threshold_final <= self.threshold_initial:
            raise ValueError("threshold_final must be above threshold_initial, or nothing is ever pruned")
        return self


def scattered(
    values: torch.Tensor, columns: torch.Tensor, lengths: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """Return the table whose rows have these lengths of values, each in its column; zero elsewhere."""
    rows = torch.repeat_interleave(torch.arange(shape[0]), lengths.long())
    return values.new_zeros(shape[0] * shape[1]).index_copy(0, rows * shape[1] + columns.long(), values).view(shape)


class PrunedTable(nn.Module):
    """Give V̂ = sign(V) ⊙ max(|V| − σ(s), 0) while thresholds are learned; then only the entries that survived.

    The survivors are stored as CSR with row lengths for row pointers: values, a column each, a length per row. First
    values are drawn from a seed of their own, so they come back without having been stored. `thresholds` holds
    s − `final`: weight decay then draws s towards `final`.
    """

    seed: torch.Tensor
    columns: torch.Tensor
    lengths: torch.Tensor

    def __init__(self, parts: tuple[int, int], settings: PruningConfig, granularity: Granularity) -> None:
        super().__init__()
        self.shape = (sum(parts), settings.dim)
        self._parts, self._settings, self._granularity = parts, settings, granularity
        shared = {"global": 1, "dim": 1, "field": 2, "field-dim": 2}
        rows, columns = shared.get(granularity, self.shape[0]), settings.dim if "dim" in granularity else 1
        self.values, self.thresholds = nn.Parameter(torch.zeros(self.shape)), nn.Parameter(torch.zeros(rows, columns))
        self.sizes_in_training = self.values.numel() + self.thresholds.numel()
        self.register_buffer("seed", torch.zeros((), dtype=torch.int64))
        self.register_buffer("columns", torch.zeros(0, dtype=smallest_type(settings.dim)))
        self.register_buffer("lengths", torch.zeros(self.shape[0], dtype=smallest_type(settings.dim + 1)))
        take_saved_shapes(self, "values", "thresholds", "columns")

    @property
    def pruned(self) -> bool:
        return self.values.ndim == 1

    def initialise(self, rng: np.random.Generator) -> None:
        self.seed.fill_(int(rng.integers(2**62)))
        self.values.data.copy_(self.first_values())
        self.thresholds.data.fill_(self._settings.threshold_initial - self._settings.threshold_final)

    def first_values(self, again: bool = False) -> torch.Tensor:
        """Return what the table was filled with; `again` draws other values of the same kind."""
        rng = np.random.default_rng([int(self.seed), int(again)])
        return xavier_uniform(self.shape, rng) if self._settings.initial == "xavier" else normal(self.shape, 0.1, rng)

    def forward(self) -> torch.Tensor:
        if self.pruned:
            return scattered(self.values, self.columns, self.lengths, self.shape)
        threshold = self._threshold()
        return self.values - torch.clamp(self.values, -threshold, threshold)

    @torch.no_grad()
    def count(self) -> int:
        """Count entries that are not zero."""
        return self.values.numel() if self.pruned else int(torch.count_nonzero(self._margins() > 0))

    @torch.no_grad()
    def survivors(self, most: int) -> torch.Tensor:
        """Return V̂ ≠ 0 as a mask; where those are too many, the `most` entries with the largest |V| − σ(s)."""
        margins = self._margins()
        alive = margins > 0
        if int(torch.count_nonzero(alive)) > most:
            alive = torch.zeros_like(alive)
            alive.view(-1)[torch.topk(margins.flatten(), most).indices] = True
        return alive

    @torch.no_grad()
    def rewind(self, mask: torch.Tensor) -> None:
        """Keep only the marked entries from now on, with the values they had at the start."""
        self.lengths.copy_(mask.sum(dim=1))
        self.columns = mask.nonzero()[:, 1].to(self.columns.dtype)
        self.values.grad = self.thresholds.grad = None
        self.values.data = self.first_values(self._settings.reinitialise)[mask]
        self.thresholds.data = torch.zeros(0)

    def _threshold(self) -> torch.Tensor:
        threshold = torch.sigmoid(self.thresholds + self._settings.threshold_final)
        if self._granularity.startswith("field"):
            return torch.repeat_interleave(threshold, torch.tensor(self._parts), dim=0)
        return threshold

    def _margins(self) -> torch.Tensor:
        return self.values.abs() - self._threshold()


P = TypeVar("P", bound=PruningConfig)


class PrunedLayer(EmbeddingLayer[P]):
    """Keep all values in one pruned table; the stages of `training/recipes/pruning.py` train it."""

    pruned: PrunedTable

    @property
    def kept(self) -> int:
        return solved(self.config.max_entries)

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.pruned.initialise(rng)

    def num_params(self) -> int:
        """Count entries that are not zero; where they stand is not counted."""
        return self.pruned.count()

    def total_trainable(self) -> int:
        """Count table and thresholds of the search, which is what training takes."""
        return self.pruned.sizes_in_training


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
