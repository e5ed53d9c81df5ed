# SPDX-License-Identifier: Apache-2.0
"""Choose rows by a learned threshold, and the widths of users and items by evolution (OptEmbed).

Lyu et al., "OptEmbed: Learning Optimal Embedding Table for Click-through Rate Prediction", CIKM 2022. The two fields
of the original are users and items here; the stages are in training/recipes/optembed.py.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import nn

from legcf.embeddings.budget import solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow
from legcf_studies.methods.sized.widths import WidthConfig, WidthTable

_QUICK: dict[str, Any] = {
    "method": {
        "dim": 64, "threshold_rate": 1e-2, "threshold_weight": 0.3, "supernet_epochs": 4, "generations": 8,
        "mutants": 6, "crossovers": 6, "parents": 6, "target": 0.3125,
    },
    "training": {**DEFAULT_TRAINING, "epochs": 12, "validation_users": 10_000}, "ranking": DEFAULT_RANKING,
}  # fmt: skip


class OptEmbedConfig(WidthConfig):
    name: Literal["optembed"] = "optembed"
    dim: int = Field(64, ge=1, description="D, the width of the supernet and the widest that a side can be")
    thresholds: Literal["side", "entity"] = Field(
        "side", description="a threshold for all users and one for all items, or one for every entity"
    )
    threshold_rate: float = Field(1e-4, gt=0, description="step size of the thresholds' plain gradient descent")
    threshold_weight: float = Field(1e-4, ge=0, description="α of α Σ exp(−t), which raises thresholds")
    supernet_epochs: int | None = Field(None, ge=0, description="most epochs of the supernet; training.epochs if null")
    generations: int = Field(30, ge=0, description="generations of the evolution; 0 keeps the full width")
    mutants: int = Field(10, ge=0, description="candidates of a generation that are a parent with a gene drawn anew")
    crossovers: int = Field(10, ge=0, description="candidates of a generation with the genes of two parents")
    parents: int = Field(15, ge=1, description="best candidates so far that the next generation comes from")
    mutation: float = Field(0.1, gt=0, le=1, description="chance that a mutant's gene is drawn anew")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of training pairs that candidates are evaluated on")
    eval_users: int = Field(2000, ge=1, description="users whose held-out pairs a candidate is evaluated on")

    @model_validator(mode="after")
    def _can_evolve(self) -> "OptEmbedConfig":
        if self.generations and not self.mutants + self.crossovers:
            raise ValueError(
                "mutants = 0 and crossovers = 0 leave a generation empty; raise one, or set generations = 0"
            )
        return self


class OptEmbed(WidthTable[OptEmbedConfig]):
    """Give E0_x = 1[‖W_x‖₁ > t_side(x)] · (first δ_side(x) values of W_x), and zeros behind them.

    While `searching`, rows are kept by their norm, and the step has a surrogate slope; afterwards `widths` holds
    the answer, 0 for rows that were dropped.

    Differences from the original: a width is drawn for a whole step and side instead of a sample, since propagation
    needs one table; candidates are compared by the monitored metric on held-out training pairs instead of AUC on
    validation; the best candidates so far are the parents (the text's elitism, which the release turns off) and none is
    tried twice; crossover exchanges whole sides; dropped rows are zero. A budget is ours: it bounds every width drawn.
    """

    Config = OptEmbedConfig
    summary = "rows kept by a learned threshold, a width for users and one for items found by evolution"
    citation = "Lyu et al., OptEmbed, CIKM 2022"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"optembed": ComparisonRow("OptEmbed", "one size", False)}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release: D = 64, batches of 2048, 30 epochs at most, which end with the first that is no better.
        "official": {
            "method": {"initial": "xavier", "supernet_epochs": 30},
            "training": {
                "batch_size": 2048, "negatives": 1, "learning_rate": 1e-3, "l2": 1e-4, "epochs": 30, "patience": 1,
            },
        },
        # The paper's loop around a supernet of 128.
        "paper": {"method": {"dim": 128, "initial": "xavier", "supernet_epochs": 30}, "training": PAPER_TRAINING},
        # Sized for two cores: a quarter of the trials, large batches, thresholds that reach the norms of rows; at most
        # 20 values per entity, the size in the paper's Table 2 for Gowalla.
        "quick": _QUICK,
        "default": _QUICK,
    }  # fmt: skip

    searching: torch.Tensor

    def __init__(self, config: OptEmbedConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        count = 2 if config.thresholds == "side" else self.num_entities
        self.thresholds = nn.Parameter(torch.zeros(count))
        self.register_buffer("searching", torch.ones((), dtype=torch.bool))
        self._users_then_items = (torch.arange(self.num_entities) >= num_users).to(torch.int64)

    def table(self) -> torch.Tensor:
        return self._composed(torch.arange(self.num_entities), self.weight)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self._composed(ids, self.weight[ids])

    def _composed(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        prefix = weight * self.mask(self.widths[ids])
        return prefix * step(self._above(ids, weight))[:, None] if self.searching else prefix

    def _above(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return ‖W_x‖₁ − t."""
        rows = ids if self.config.thresholds == "entity" else self._users_then_items[ids]
        return weight.abs().sum(dim=1) - self.thresholds[rows]

    def penalty(self) -> torch.Tensor | None:
        """Return α Σ exp(−t), as long as thresholds are learned."""
        if not self.searching or not self.thresholds.requires_grad:
            return None
        return self.config.threshold_weight * torch.exp(-self.thresholds).sum()

    @torch.no_grad()
    def kept(self) -> NDArray[np.bool_]:
        """Mark the rows that are not dropped."""
        if not self.searching:
            return self.widths.numpy() > 0
        return (self._above(torch.arange(self.num_entities), self.weight) > 0).numpy()

    def set_sides(self, user_width: int, item_width: int) -> None:
        self.widths[: self.num_users] = user_width
        self.widths[self.num_users :] = item_width

    def settle(self) -> None:
        """End the search: what is kept, and how wide, is fixed from now on."""
        users, items = int(self.widths[0]), int(self.widths[-1])
        if users > self.widest(0, items):  # nothing was tried, so each side has all that the other could leave it
            alike = solved(self.config.allowed_values(self.num_entities)) // self.num_entities
            self.set_sides(alike, alike)
        self.set_widths(self.entity_sizes())
        self.searching.fill_(False)

    def draw_sides(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draw widths of users and items, uniform within 1 … D; one side after the other where a budget bounds them."""
        first = int(rng.integers(2))
        drawn = [1, 1]
        for side in (first, 1 - first):
            drawn[side] = int(rng.integers(1, self.widest(side, drawn[1 - side]) + 1))
        return drawn[0], drawn[1]

    def widest(self, side: int, other: int) -> int:
        """Return the greatest width of a side (0: users, 1: items) beside that of the other."""
        allowed, counts = self.config.allowed_values(self.num_entities), (self.num_users, self.num_items)
        if allowed is None:
            return self.width
        return min(self.width, (allowed - counts[1 - side] * other) // max(counts[side], 1))

    def entity_sizes(self) -> NDArray[np.int64]:
        return self.widths.numpy().astype(np.int64) * self.kept()

    def num_params(self) -> int:
        """Count U_kept · δ_users + I_kept · δ_items"""
        return int(self.entity_sizes().sum())

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        """Keep whole rows while their norms count in the search; after it thresholds have done their work."""
        if not self.searching:
            super().pack(state)
            del state["thresholds"]

    def unpack(self, state: dict[str, torch.Tensor]) -> None:
        super().unpack(state)
        state.setdefault("thresholds", self.thresholds)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, above: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(above)
        return (above > 0).to(above.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (above,) = ctx.saved_tensors
        return gradients[0] * surrogate_slope(above)


def step(above: torch.Tensor) -> torch.Tensor:
    """Return 1[z > 0], differentiable by its surrogate."""
    result: torch.Tensor = _Step.apply(above)  # type: ignore[no-untyped-call]
    return result


def surrogate_slope(above: torch.Tensor) -> torch.Tensor:
    """Return 2 − 4|z| up to 0.4, then 0.4 up to 1, then 0."""
    size = above.abs()
    return torch.where(size <= 0.4, 2 - 4 * size, torch.where(size <= 1, 0.4, 0.0))
