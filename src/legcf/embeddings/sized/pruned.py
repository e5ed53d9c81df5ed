# SPDX-License-Identifier: Apache-2.0
"""Prune tables by learned thresholds: what PEP and the methods that follow it have in common."""

from typing import Literal, TypeVar

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal, smallest_type, take_saved_shapes, xavier_uniform
from legcf.embeddings.budget import Budgeted, solved

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
        self.values = nn.Parameter(torch.zeros(self.shape))
        self.thresholds = nn.Parameter(
            torch.zeros(shared.get(granularity, self.shape[0]), settings.dim if "dim" in granularity else 1)
        )
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
            flat = self.values.new_zeros(self.shape[0] * self.shape[1])
            rows = torch.repeat_interleave(torch.arange(self.shape[0]), self.lengths.long())
            offsets = rows * self.shape[1] + self.columns.long()
            return flat.index_copy(0, offsets, self.values).view(self.shape)
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
