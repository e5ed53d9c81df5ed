# SPDX-License-Identifier: Apache-2.0
"""Grow widths step by step where a policy gains by it (ESAPN).

Liu et al., "Automated Embedding Size Search in Deep Recommender Systems", SIGIR 2020. The policies and the growing are
in `training/recipes/esapn.py`.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow
from legcf_studies.methods.sized.widths import WidthConfig, WidthTable, check_widths

_EPSILON = 1e-5  # of the normalisation, torch's default
_RELEASE = {"dim": 128, "widths": [2, 4, 8, 16, 64, 128]}

# The whole run within 15 minutes of two cores on Gowalla.
_QUICK: dict[str, dict[str, Any]] = {
    "method": {
        "dim": 64, "target": 0.172, "grow_epochs": 6, "decide_every": 25, "reward_timing": "after a step",
        "popularity": "log", "policy_rate": 1e-3,
    },
    "training": {**DEFAULT_TRAINING, "epochs": 12, "max_minutes": 14}, "ranking": DEFAULT_RANKING,
}  # fmt: skip


class EsapnConfig(WidthConfig):
    name: Literal["esapn"] = "esapn"
    widths: list[int] | None = Field(None, description="widths of an entity, rising; 2, 4, 8, … up to dim if null")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of training pairs that rewards are measured on")
    grow_epochs: int = Field(20, ge=0, description="epochs in which sizes grow, before all pairs are trained on")
    decide_every: int = Field(50, ge=1, description="steps between two decisions of the policies")
    reward_timing: Literal["at once", "after a step"] = Field(
        "at once", description="an action is rewarded for the loss right after it, or after a step in its new width"
    )
    reward_pairs: int = Field(8192, ge=1, description="held-out pairs that a decision is rewarded on")
    recent_losses: int = Field(5, ge=1, description="T, an entity's last losses that a reward is measured against")
    policy_rate: float = Field(1e-4, gt=0, description="learning rate of the policies")
    popularity: Literal["count", "log"] = Field(
        "count", description="policies know an entity by its degree, or by quarters of an octave of it"
    )
    hidden: int = Field(512, ge=1, description="width of the policies' hidden layer")
    search_share: float = Field(0.5, gt=0, lt=1, description="share of training.max_minutes in which sizes grow")

    @model_validator(mode="after")
    def _rising(self) -> "EsapnConfig":
        if self.widths is not None:
            check_widths(self.widths, self.dim)
        return self

    @property
    def candidates(self) -> list[int]:
        if self.widths is not None:
            return self.widths
        return [*(2**k for k in range(1, 31) if 2**k < self.dim), self.dim]

    @property
    def least_width(self) -> int:
        return self.candidates[0]


class Esapn(WidthTable[EsapnConfig]):
    """Give E0_x = tanh(BN(W_{M−1} … W_k t_x)), t_x of width d_k(x); one chain of transitions and one BN for each side.

    An entity has one row, whose first d_k values live: an enlarged row replaces the old one, which is never read again.
    BN takes its statistics from all users (all items), here always of the present values.
    """

    Config = EsapnConfig
    summary = "widths that a policy network enlarges where it lowers the loss"
    citation = "Liu et al., ESAPN, SIGIR 2020"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"esapn": ComparisonRow("ESAPN", "one size", False)}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release: widths, rates and batches of its CTR model; the loss is BPR with one negative.
        "official": {
            "method": _RELEASE | {"decide_every": 1, "reward_pairs": 500},
            "training": {"negatives": 1, "batch_size": 500, "learning_rate": 1e-3},
        },
        "paper": {"method": _RELEASE, "training": PAPER_TRAINING},
        "quick": _QUICK,
        "default": _QUICK,
    }

    def __init__(self, config: EsapnConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.candidates = config.candidates
        self._ends = [*self.candidates, *([config.dim] if self.candidates[-1] < config.dim else [])]
        self._chains = {side: _Chain(self._ends) for side in ("user", "item")}
        self.chains = nn.ModuleDict(self._chains)
        self.widths.fill_(self.candidates[0])
        self._standing_in: torch.Tensor | None = None

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        super().initialise(train, rng)
        self.widths.fill_(self.candidates[0])
        for chain in self._chains.values():
            chain.initialise(rng)

    @property
    def levels(self) -> torch.Tensor:
        """Return k(x): the index of every entity's width among the candidates."""
        return torch.searchsorted(torch.tensor(self.candidates, dtype=torch.int32), self.widths)

    def table(self) -> torch.Tensor:
        composed = self.composed() if self._standing_in is None else self._standing_in
        halves = (composed[: self.num_users], composed[self.num_users :])
        return torch.cat([chain.squashed(half) for chain, half in zip(self._chains.values(), halves, strict=True)])

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table()[ids]

    def composed(self) -> torch.Tensor:
        """Return all rows at full width, before BN."""
        return torch.cat([self._composed(*side) for side in self._sides()])

    @contextmanager
    def standing_in(self, composed: torch.Tensor) -> Iterator[None]:
        """Use these as the composed rows for the time being."""
        self._standing_in = composed
        try:
            yield
        finally:
            self._standing_in = None

    def step_from(
        self, composed: torch.Tensor, gradient: torch.Tensor, levels: torch.Tensor, rate: float
    ) -> torch.Tensor:
        """Return composed rows after a step of root mean square `rate` in the values of rows that had these levels."""
        moved = composed.clone()
        for side, members in self._sides():
            for level, (onwards, _) in enumerate(self._chains[side].maps()[: len(self.candidates)]):
                at_level = members[levels[members] == level]
                slope = gradient[at_level] @ onwards.T
                size = slope.square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-12)
                moved[at_level] -= rate * (slope / size) @ onwards
        return moved

    @torch.no_grad()
    def enlarge(self, entities: torch.Tensor) -> None:
        """Give these the next width; the composed rows stay what they are."""
        levels = self.levels
        marked = torch.zeros(self.num_entities, dtype=torch.bool)
        marked[entities] = True
        for side, members in self._sides():
            for level in range(len(self.candidates) - 1):
                at_level = members[marked[members] & (levels[members] == level)]
                width, wider = self.candidates[level : level + 2]
                self.weight[at_level, :wider] = self._chains[side].steps[level](self.weight[at_level, :width])
                self.widths[at_level] = wider

    def _sides(self) -> list[tuple[str, torch.Tensor]]:
        entities = torch.arange(self.num_entities)
        return [("user", entities[: self.num_users]), ("item", entities[self.num_users :])]

    def _composed(self, side: str, members: torch.Tensor) -> torch.Tensor:
        levels, parts, order = self.levels[members], [], []
        for level, (onwards, offset) in enumerate(self._chains[side].maps()[: len(self.candidates)]):
            at_level = torch.nonzero(levels == level)[:, 0]
            order.append(at_level)
            parts.append(self.weight[members[at_level], : self.candidates[level]] @ onwards + offset)
        return torch.cat(parts)[torch.argsort(torch.cat(order))]


class _Chain(nn.Module):
    """Hold the transitions d_1 → d_2 → … → d of one side, and its normalisation."""

    def __init__(self, ends: list[int]) -> None:
        super().__init__()
        self._linear = [nn.Linear(a, b) for a, b in itertools.pairwise(ends)]
        self.steps = nn.ModuleList(self._linear)
        self._width = ends[-1]
        self.scale, self.shift = nn.Parameter(torch.ones(self._width)), nn.Parameter(torch.zeros(self._width))

    def initialise(self, rng: np.random.Generator) -> None:
        """Fill as torch fills linear layers, from this generator."""
        for step in self._linear:
            bound = step.in_features**-0.5
            for parameter in step.parameters():
                parameter.data.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(parameter.shape))))
        self.scale.data.fill_(1)
        self.shift.data.fill_(0)

    def maps(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return (P_k, p_k) with W_{M−1} … W_k t = t P_k + p_k for every level: the chain multiplied out."""
        chain = [(torch.eye(self._width), torch.zeros(self._width))]
        for step in reversed(self._linear):
            onwards, offset = chain[0]
            chain.insert(0, (step.weight.T @ onwards, step.bias @ onwards + offset))
        return chain

    def squashed(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.tanh(normalised(rows) * self.scale + self.shift)


def normalised(rows: torch.Tensor) -> torch.Tensor:
    """Normalise by the statistics of these rows, as BN does, also where there is only one."""
    return (rows - rows.mean(dim=0)) * (rows.var(dim=0, unbiased=False) + _EPSILON).rsqrt()
