# SPDX-License-Identifier: Apache-2.0
"""Hold what a selection tries: candidates, tables, the forms they are stored in, and who evaluates them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from legcf.core.arrays import Positions
from legcf.core.config import RankingConfig, RunConfig
from legcf.data.interactions import Interactions
from legcf.factorisation.history_vectors import HISTORY_POWER
from legcf.ranking.item_lists.recipe import Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import Lead, lead
from legcf.training.build import Model
from legcf.training.registry import resolve

FEW_USERS, SOME_USERS = 500, 2000  # users who are evaluated while many, and few, candidates are left; not measured
_FEW_CANDIDATES = 3  # who need not be dropped; not measured
SURE = 2.0  # standard errors by which a candidate is behind when it is dropped
Build = Callable[[RunConfig], Model]
"""Makes a model with its first values."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Hold the settings of a model that needs no training, and its selection score."""

    config: RunConfig
    """Nothing is left to select in it."""
    score: float
    """Of the users who are evaluated while a model trains."""
    make: Callable[[RunConfig], Model]
    """Makes the model as it was evaluated."""
    quick_score: float = 0.0
    """Of some of these users."""
    lead: Lead | None = None
    """By how much it is ahead of the best of the other tables among some of these users."""
    rival: str = ""
    """Which other that is."""


@dataclass(frozen=True)
class Race:
    """Hold the objectives of a race: few users evaluate many candidates, more users those that are left.

    Candidates need vectors of no other users: their rankings have those of `users` alone, who have these `histories`.
    """

    few: Objective
    some: Objective
    everyone: Objective
    users: Positions
    histories: Interactions

    def leaders(self, candidates: list[Form], score: Callable[[Form, Objective], float]) -> list[Form]:
        """Drop whoever is behind the leader by two standard errors among few users, unless they are few themselves."""
        if len(candidates) <= _FEW_CANDIDATES:
            return candidates
        scores = [score(candidate, self.few) for candidate in candidates]
        best = max(scores)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [candidates[index] for index in order if not lead(best, scores[index]).exceeds(SURE)]


@dataclass(frozen=True, eq=False)
class Table:
    """Hold a table that is tried: items with vectors of their own, not rounded yet, and users as their histories."""

    setting: str
    """What is tried, as reports name it: als λ=20, spectral c=0.3."""
    method: dict[str, Any]
    """The settings that give it again."""
    ranking: Ranking
    item_power: float = HISTORY_POWER

    @property
    def width(self) -> int:
        return int(self.ranking.items.shape[1])

    def config(self, run: RunConfig, ranking: RankingConfig) -> RunConfig:
        """Return the settings of a run that makes this table."""
        overrides = {"method": {**self.method, "dim": self.width}, "backbone": {"item_power": self.item_power}}
        made = resolve("full", "history", "items", run.seed, overrides, run.data)
        return made.model_copy(update={"ranking": ranking, "preset": run.preset})


@dataclass(frozen=True, eq=False)
class Form:
    """Hold how a table is stored, in so many bits per value, and the weight of the lists beside it."""

    table: Table
    bits: int
    list_weight: float

    @property
    def name(self) -> str:
        return f"{self.table.setting} {self.table.width} wide {self.bits} bits"


@dataclass(frozen=True, eq=False)
class Tried:
    """Hold the best form so far and the best of those that it was preferred to, with what some users say of both."""

    form: Form
    score: float
    rival: str = ""
    rival_score: float = -math.inf

    def over(self, other: Tried) -> Tried:
        """Return this form as preferred to the other."""
        rivals = [(self.rival_score, self.rival), (other.score, other.form.name), (other.rival_score, other.rival)]
        rival_score, rival = max(rivals, key=lambda one: one[0])
        return replace(self, rival=rival, rival_score=rival_score)

    def or_surely_better(self, other: Tried) -> Tried:
        """Return the other form if it is better by more than its error, else this one."""
        return other.over(self) if lead(other.score, self.score).exceeds() else self.over(other)
