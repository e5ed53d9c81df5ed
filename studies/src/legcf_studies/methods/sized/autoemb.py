# SPDX-License-Identifier: Apache-2.0
"""Weigh candidate widths of every entity by a controller that looks at popularity (AutoEmb).

Zhao et al., "AutoEmb: Automated Embedding Dimensionality Search in Streaming Recommendations", ICDM 2021. The
alternation between model and controller is in training/recipes/autoemb.py.
"""

from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import Budgeted, stored_values, too_small
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow, xavier_uniform
from legcf_studies.methods.sized.widths import check_widths

LEVELS = 32
"""Levels of popularity, two to every doubling of the pairs: entities of one level share their weights."""

_SPREAD = 0.3  # of table entries and, times √d_m, of map entries

_QUICK: dict[str, Any] = {
    "method": {"dim": 64, "squash": False, "search_epochs": 3, "controller_rate": 1e-3, "controller_every": 3},
    "training": {**DEFAULT_TRAINING, "epochs": 10, "validation_users": 10_000},
    "ranking": DEFAULT_RANKING,
}


class AutoEmbConfig(Budgeted):
    name: Literal["autoemb"] = "autoemb"
    dim: int = Field(128, ge=1, description="d, the width that every candidate is mapped to")
    widths: list[int] = Field([1, 4, 8], description="d_1 < … < d_M, the candidate widths of an entity")
    selection: Literal["soft", "hard"] = Field(
        "soft", description="keep the weighted sum of all candidates, or each entity's best candidate alone"
    )
    squash: bool = Field(True, description="batch normalisation and tanh over a mapped candidate, as the original")
    popularity_width: int = Field(32, ge=1, description="width of the controller's embedding of popularity")
    hidden: int = Field(512, ge=1, description="width of the controller's hidden layer")
    controller_rate: float = Field(1e-4, gt=0, description="step size of the controller's Adam")
    controller_every: int = Field(1, ge=1, description="model steps between two steps of the controller")
    search_epochs: int | None = Field(None, ge=0, description="epochs of the search; training.epochs if null")
    reinitialise: bool = Field(False, description="after the search, train from new values instead of going on")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of training pairs that the controller learns from")

    @model_validator(mode="after")
    def _fit(self) -> "AutoEmbConfig":
        check_widths(self.widths, self.dim)
        return self


class AutoEmb(EmbeddingLayer[AutoEmbConfig]):
    """Give E0_x = Σ_m α_m(x) z_m(x) with z_m(x) = tanh(BN(T_m[x] W_m + b_m)), one W, b and BN for users, one for items.

    α(x) = controller(popularity of x, previous α(x)) is shared by all entities of a side and level of popularity. When
    `settled`, α is fixed: as the controller left it (soft), or 1 for one candidate of each entity (hard).

    Differences from the original: the propagated table has all entities in it at every step, so all weights are
    renewed together, the controller runs once for every level of popularity instead of once for every entity, and
    normalisation takes the statistics of all entities, in training and after; BN is over all candidates together; the
    controller learns from held-out training pairs instead of the next batch of a stream, and does not see the last
    loss; candidates are mapped to a width of their own choice (`dim`) instead of to the widest.
    """

    Config = AutoEmbConfig
    summary = "candidate widths for every entity, weighed by a controller that looks at popularity"
    citation = "Zhao et al., AutoEmb, ICDM 2021"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {
        "autoemb": ComparisonRow("AutoEmb", "one size", within_budget=False),
        "autoemb-hard": ComparisonRow(
            "AutoEmb, best width kept", "one size", within_budget=False, overrides={"method": {"selection": "hard"}}
        ),
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The original's widths, rates and batches of 500, around BPR with one negative per pair.
        "official": {
            "method": {"widths": [2, 16, 128]},
            "training": {"batch_size": 500, "negatives": 1, "learning_rate": 1e-3},
        },
        # 13 values per entity, the size in the paper's Table 2 for Gowalla; which widths it had, and how long it
        # searched, is not said there. Nothing but its epochs ends the search.
        "paper": {"method": {"widths": [1, 4, 8], "search_epochs": 30}, "training": PAPER_TRAINING},
        # Sized for two cores: one product instead of M normalised tables, and fewer steps of the controller.
        "quick": _QUICK,
        "default": _QUICK,
    }

    levels: torch.Tensor
    previous: torch.Tensor
    settled: torch.Tensor
    choice: torch.Tensor

    def __init__(self, config: AutoEmbConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        config = self.config
        count, total = len(config.widths), sum(config.widths)
        self.tables = nn.Parameter(torch.zeros(self.num_entities, total))
        self.maps = nn.Parameter(torch.zeros(2, total, config.dim))
        self.biases = nn.Parameter(torch.zeros(2, count, config.dim))
        self._norms = [nn.BatchNorm1d(config.dim, track_running_stats=False) for _ in range(2 if config.squash else 0)]
        self._controllers = [Controller(config) for _ in range(2)]
        self.norms, self.controller = nn.ModuleList(self._norms), nn.ModuleList(self._controllers)
        self.register_buffer("levels", torch.zeros(self.num_entities, dtype=torch.int64))
        self.register_buffer("previous", torch.eye(count)[0].repeat(2, LEVELS, 1))
        self.register_buffer("settled", torch.zeros((), dtype=torch.bool))
        self.register_buffer("choice", torch.zeros(self.num_entities, dtype=torch.int64))
        self._of_column = torch.arange(count).repeat_interleave(torch.tensor(config.widths))

    @property
    def width(self) -> int:
        return self.config.dim

    @classmethod
    def sized(cls, config: AutoEmbConfig, num_users: int, num_items: int) -> AutoEmbConfig:
        """Choose the candidate widths that use a budget best, as all of them are stored (soft)."""
        entities = num_users + num_items
        if config.budget is None:
            return config
        allowed = stored_values(config.budget, entities)
        if allowed < config.widths[0] * entities:
            raise too_small(allowed, config.widths[0] * entities)
        if config.selection == "hard":
            return config
        subsets = (s for size in range(len(config.widths)) for s in combinations(config.widths, size + 1))
        best = max((s for s in subsets if sum(s) * entities <= allowed), key=lambda s: (sum(s), len(s)))
        return config.model_copy(update={"widths": list(best)})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        degrees = np.concatenate([train.user_degrees, train.item_degrees])
        self.levels.copy_(torch.from_numpy(np.minimum(2 * np.log2(1 + degrees), LEVELS - 1).astype(np.int64)))
        self.fill(rng)
        for controller in self._controllers:
            controller.fill(rng)

    def fill(self, rng: np.random.Generator) -> None:
        """Draw new values for all but the controller; every candidate starts with entries of about ± 0.1."""
        self.tables.data.copy_(normal(tuple(self.tables.shape), _SPREAD, rng))
        fan = torch.tensor(self.config.widths)[self._of_column].sqrt()
        self.maps.data.copy_(normal(tuple(self.maps.shape), _SPREAD, rng) / fan[:, None])
        self.biases.data.zero_()
        for norm in self._norms:
            norm.reset_parameters()

    def table(self) -> torch.Tensor:
        weights, users = self.entity_weights(), self.num_users
        sides = ((self.tables[:users], weights[:users]), (self.tables[users:], weights[users:]))
        return torch.cat([self._composed(side, *rows) for side, rows in enumerate(sides)])

    def _composed(self, side: int, tables: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        if not self.norms or self._is_hard or len(self.config.widths) == 1:
            # One product; with one candidate per entity there is nothing to weigh after it.
            mapped = (tables * weights[:, self._of_column]) @ self.maps[side] + weights @ self.biases[side]
            return torch.tanh(self.norms[side](mapped)) if self.norms else mapped
        candidates, maps = torch.split(tables, self.config.widths, 1), torch.split(self.maps[side], self.config.widths)
        mapped = torch.cat([torch.addmm(*parts) for parts in zip(self.biases[side], candidates, maps, strict=True)])
        squashed = torch.tanh(self.norms[side](mapped)).reshape(len(self.config.widths), len(tables), -1)
        composed = weights[:, :1] * squashed[0]
        for number in range(1, len(squashed)):  # an einsum would be as many products of a few numbers as there are rows
            composed = torch.addcmul(composed, weights[:, number : number + 1], squashed[number])
        return composed

    def entity_weights(self) -> torch.Tensor:
        """Return α, N × M: what every candidate of every entity counts for."""
        if self._is_hard:
            return nn.functional.one_hot(self.choice, len(self.config.widths)).to(self.tables.dtype)
        weights = self.level_weights()
        return torch.cat([weights[0][self.levels[: self.num_users]], weights[1][self.levels[self.num_users :]]])

    def level_weights(self) -> torch.Tensor:
        """Return α, 2 × levels × M: for users and for items."""
        if self.settled:
            return self.previous
        return torch.stack([net(before) for net, before in zip(self.controller, self.previous, strict=True)])

    @torch.no_grad()
    def remember_weights(self) -> None:
        """Keep what the controller says now as the previous weight of its next answer."""
        self.previous.copy_(self.level_weights())

    @torch.no_grad()
    def settle(self) -> None:
        """Fix the weights. Hard: the candidate of the greatest weight, or of the greatest that the budget can pay."""
        if self.settled:
            return
        weights = self.entity_weights()
        self.remember_weights()
        self.settled.fill_(True)
        if self.config.selection == "hard":
            self.choice.copy_(self._affordable(weights))
            self.tables.data *= self._used()

    def _affordable(self, weights: torch.Tensor) -> torch.Tensor:
        """Return argmax_m α_m − μ d_m for the least price μ ≥ 0 that keeps within the budget."""
        widths, budget = torch.tensor(self.config.widths), self.config.budget
        allowed = np.inf if budget is None else stored_values(budget, self.num_entities)
        low, high = 0.0, 0.0
        choice = weights.argmax(dim=1)
        while int(widths[choice].sum()) > allowed:
            low, high = high, 2 * high + 1e-3
            choice = (weights - high * widths).argmax(dim=1)
        for _ in range(40):
            price = (low + high) / 2
            cheaper = (weights - price * widths).argmax(dim=1)
            if int(widths[cheaper].sum()) <= allowed:
                high, choice = price, cheaper
            else:
                low = price
        return choice

    def _used(self) -> torch.Tensor:
        """Return the columns of each entity's chosen candidate."""
        return self.choice[:, None] == self._of_column

    @property
    def _is_hard(self) -> bool:
        return bool(self.settled) and self.config.selection == "hard"

    def entity_sizes(self) -> NDArray[np.int64] | None:
        return np.take(self.config.widths, self.choice.numpy()) if self._is_hard else None

    def num_params(self) -> int:
        """Count N · Σ_m d_m when soft, the widths that were chosen when hard. Maps and controller are not counted."""
        sizes = self.entity_sizes()
        return self.tables.numel() if sizes is None else int(sizes.sum())

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        """Drop the controller once settled; soft, levels have weights, and hard, entities a candidate."""
        state["levels"], state["choice"] = state["levels"].to(torch.uint8), state["choice"].to(torch.uint8)
        if not self.settled:
            return
        for name in [name for name in state if name.startswith("controller.")]:
            del state[name]
        if self._is_hard:
            state["tables"] = state["tables"][self._used()]
            del state["previous"], state["levels"]
        else:
            del state["choice"]

    def unpack(self, state: dict[str, torch.Tensor]) -> None:
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            if name.startswith("controller.") or name in ("previous", "levels", "choice"):
                state.setdefault(name, tensor)
        if state["tables"].ndim == 1:
            used = state["choice"][:, None] == self._of_column
            state["tables"] = torch.zeros(used.shape).masked_scatter(used, state["tables"])


class Controller(nn.Module):
    """Map popularity level → embedding → BN, beside the previous weights → linear → BN → tanh → linear → softmax."""

    def __init__(self, config: AutoEmbConfig) -> None:
        super().__init__()
        count, wide = len(config.widths), config.popularity_width
        self.popularity = nn.Parameter(torch.zeros(LEVELS, wide))
        self.norm = nn.BatchNorm1d(wide, track_running_stats=False)
        self.inner = nn.Linear(wide + count, config.hidden)
        self.inner_norm = nn.BatchNorm1d(config.hidden, track_running_stats=False)
        self.outer = nn.Linear(config.hidden, count)

    def fill(self, rng: np.random.Generator) -> None:
        self.popularity.data.copy_(normal(tuple(self.popularity.shape), 1.0, rng))
        for linear in (self.inner, self.outer):
            linear.weight.data.copy_(xavier_uniform((linear.out_features, linear.in_features), rng))
            linear.bias.data.zero_()

    def forward(self, previous: torch.Tensor) -> torch.Tensor:
        inputs = torch.cat([self.norm(self.popularity), previous], dim=1)
        return torch.softmax(self.outer(torch.tanh(self.inner_norm(self.inner(inputs)))), dim=1)
