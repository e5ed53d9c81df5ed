# SPDX-License-Identifier: Apache-2.0
"""Search for the table of few bits per value, factorised or singular, that ranks best within a byte budget.

Tables are not trained, so every one of them is evaluated with its lists and in its final precision, without a model:
only the winner becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.config import RankingConfig, RunConfig
from legcf.core.random_streams import Stream
from legcf.data.interactions import Dataset, Interactions
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import HISTORY_POWER, history_items, pooled_ranking
from legcf.factorisation.spectral import singular_vectors
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.recipe import ListFitter, Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import lead
from legcf.ranking.selection_policy import SelectionPolicy
from legcf.ranking.tables.embedding_table import packed_table_bytes
from legcf.training.build import Model
from legcf.training.registry import resolve
from legcf.training.session import A_TABLE, Deadline
from legcf.training.shared_work import Work

_Factorised = tuple["Table", tuple[FloatArray, FloatArray], AlsSettings]
"""A table, the vectors of users and items that it was made of, and their settings."""
Build = Callable[[RunConfig], Model]
"""Makes a model with its first values."""

# Chosen while tables and lists were made, on validation of Gowalla, Yelp2018, LastFM and ml-1m (docs/study.md, section
# 11, and docs/results.md). Values without a note on alternatives were not measured one by one.
_FACTORS = (128, 256, 384)  # columns of a factorisation; wider is better on large data alone
_WIDE_PAIRS = 10**5  # training pairs below which wider ones are not tried: LastFM (42,135) gains nothing by them
_MOST_RIDGE = 80.0  # λ of a factorisation in a large catalogue; it is doubled while that is better
_MORE_ROUNDS = 2  # of a factorisation that goes on from another with half its λ; others were not measured
_POPULARITY_POWERS = (0.3, 0.5)  # c of singular vectors
_MOST_SINGULAR = 512  # columns
_DENSE = 0.01  # pairs / (users · items) above which singular vectors are tried: they lose on LastFM (0.005)
_TABLE_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # columns; the same for every file size
_LEAST_TABLE_SHARE, _MOST_TABLE_SHARE = 0.2, 0.8  # of the byte budget; the rest is for the lists
_LEAST_ITEMS_PER_COLUMN = 4
FEW_USERS, SOME_USERS = 500, 2000  # users who are evaluated while many, and few, candidates are left; not measured
_SURE = 2.0  # standard errors by which a candidate is behind when it is dropped
# Of the score of the codes before training: what another λ does not make up for. On Gowalla the first table has 0.963
# and 0.980 of it (two seeds), a better λ adds 0.9 %, and training adds 2 % to the codes.
_HOPELESS = 0.985


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


@dataclass(frozen=True)
class Race:
    """Hold the objectives of a race: few users evaluate many candidates, more users those that are left.

    Candidates need vectors of no other users: their rankings have these `histories`.
    """

    few: Objective
    some: Objective
    everyone: Objective
    histories: Interactions

    def leaders(self, candidates: list[Form], score: Callable[[Form, Objective], float]) -> list[Form]:
        """Drop whoever is behind the leader by two standard errors among few users; the leader comes first."""
        if len(candidates) < 2:
            return candidates
        scores = [score(candidate, self.few) for candidate in candidates]
        best = max(scores)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [candidates[index] for index in order if not lead(best, scores[index]).exceeds(_SURE)]


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

    def config(self, run: RunConfig, dim: int, ranking: RankingConfig) -> RunConfig:
        """Return the settings of a run that makes so many columns of this table."""
        overrides = {"method": {**self.method, "dim": dim}, "backbone": {"item_power": self.item_power}}
        made = resolve("full", "history", "items", run.seed, overrides, run.data)
        return made.model_copy(update={"ranking": ranking, "preset": run.preset})


@dataclass(frozen=True, eq=False)
class Form:
    """Hold how a table is stored: its first columns, bits per value, and the weight of the lists beside them."""

    table: Table
    dim: int
    bits: int
    list_weight: float

    @property
    def name(self) -> str:
        return f"{self.table.setting} {self.dim} wide {self.bits} bits"


@dataclass(frozen=True, eq=False)
class TableSearch:
    """Search for the item table, factorised or singular, that ranks best within the byte budget."""

    config: RunConfig
    """The settings of the run; those of lists and factorisation are as selected."""
    dataset: Dataset
    byte_budget: int
    fitter: ListFitter
    build: Build
    race: Race
    work: Work
    deadline: Deadline

    def best(self, start_score: float) -> Candidate | None:
        """Select a form of the factorisation that the codes started from, then what else it could be made of.

        Returns None where no table fits, there is no time for one, or the codes are so far ahead that no λ would make
        up for it.
        """
        widest = min(max((width for width, _ in self._sizes(_MOST_SINGULAR)), default=0), self._most_columns)
        if not widest or not self.deadline.allows(A_TABLE):
            return None
        first = self._factorised(min(_FACTORS[0], widest), self._settings, None)
        form, score = self._best_form(first[0])
        if lead(start_score, score).exceeds() and score < _HOPELESS * start_score:
            return None
        if not SelectionPolicy.for_catalogue(self.dataset.num_items).fits_factorisation_on_folds:
            form, score, first = self._climb_ridge(form, score, first)
        form, score = self._widened(form, score, widest)
        for table in self._singular(widest) if self.deadline.allows(A_TABLE) else ():
            other, other_score = self._best_form(table)
            if lead(other_score, score).exceeds():
                form, score = other, other_score
        return self._candidate(form)

    def _climb_ridge(self, form: Form, score: float, before: _Factorised) -> tuple[Form, float, _Factorised]:
        """Double λ while that is better, each time from the vectors that half of it gave."""
        while (ridge := 2 * before[2].regularisation) <= _MOST_RIDGE and self.deadline.allows(A_TABLE):
            settings = before[2].model_copy(update={"regularisation": ridge})
            trial = self._factorised(form.table.width, settings, before)
            other = replace(form, table=trial[0])
            other_score = self._score(other, self.race.some)
            if other_score <= score:
                break
            form, score, before = other, other_score, trial
        return form, score, before

    def _widened(self, form: Form, score: float, widest: int) -> tuple[Form, float]:
        """Factorise in more columns while that is surely better."""
        settings = AlsSettings(**form.table.method["als"])
        for factors in _FACTORS[1:]:
            few = self.dataset.train.num_pairs < _WIDE_PAIRS
            if factors > widest or few or not self.deadline.allows(factors / _FACTORS[0] * A_TABLE):
                break
            other, other_score = self._best_form(self._factorised(factors, settings, None)[0], form.list_weight)
            if not lead(other_score, score).exceeds():
                break
            form, score = other, other_score
        return form, score

    def _factorised(self, width: int, settings: AlsSettings, before: _Factorised | None) -> _Factorised:
        """Factorise anew, or from a factorisation with a smaller λ."""
        train, rng = self.dataset.train, Stream.FACTORISATION.generator(self.config.seed)
        if before is None:
            vectors = self.work.factorise(train, width, rng, settings)
        else:
            rounds = settings.model_copy(update={"rounds": min(_MORE_ROUNDS, settings.rounds)})
            vectors = factorise(train, width, rng, rounds, start=before[1])
        setting = f"als λ={settings.regularisation:g}"
        method = {"initial": "als", "als": settings.model_dump()}
        items = history_items(train, *vectors)
        ranking = pooled_ranking(train, items, HISTORY_POWER, self.race.histories)
        return Table(setting, method, ranking), vectors, settings

    def _singular(self, widest: int) -> Iterator[Table]:
        """Return tables of singular vectors where data is dense; all powers of popularity have the same vectors."""
        train = self.dataset.train
        if train.num_pairs <= _DENSE * train.num_users * train.num_items:
            return
        rng = Stream.FACTORISATION.generator(self.config.seed)
        vectors = singular_vectors(train, min(_MOST_SINGULAR, widest), rng)
        for power in _POPULARITY_POWERS:
            items = vectors * (np.maximum(train.item_degrees, 1) ** power).astype(np.float32)[:, None]
            ranking = pooled_ranking(train, items, HISTORY_POWER + power, self.race.histories)
            method = {"initial": "spectral", "popularity_power": power}
            yield Table(f"spectral c={power:g}", method, ranking, HISTORY_POWER + power)

    def _best_form(self, table: Table, list_weight: float | None = None) -> tuple[Form, float]:
        """Select columns and bits: the largest table that fits, unless another is surely better beside its lists.

        On LastFM (400 kB) the largest is best on validation and on a fold of the training pairs, with a light list
        weight; few users at the weight that suits codes would prefer narrow ones.
        """
        weight = self.config.ranking.list_weight if list_weight is None else list_weight
        items = self.dataset.num_items
        by_size = sorted(self._sizes(table.width), key=lambda size: -packed_table_bytes(items, *size))
        first = Form(table, *by_size[0], weight)
        settings = self._ranking_settings(first)
        narrow, lists = self._built(first, settings)
        weight, best_score = self.fitter.weighed(narrow, lists, weight, self._named(first, self.race.some), settings)
        best = replace(first, list_weight=weight)
        for form in self.race.leaders([Form(table, *size, weight) for size in by_size], self._score):
            score = self._score(form, self.race.some)
            if lead(score, best_score).exceeds():
                best, best_score = form, score
        return best, best_score

    def _score(self, form: Form, objective: Objective) -> float:
        """Evaluate a form beside the lists that the byte budget then allows."""
        settings = self._ranking_settings(form)
        narrow, lists = self._built(form, settings)
        return self.fitter.score(narrow, lists, form.list_weight, self._named(form, objective), settings)

    def _built(self, form: Form, settings: RankingConfig) -> tuple[Ranking, ItemLists]:
        builder = RankingBuilder(settings, self.byte_budget, self.fitter)
        narrow = builder.quantised(_first_columns(form.table.ranking, form.dim))
        return narrow, self.fitter.lists(settings, builder.entries(narrow), refit=False)

    def _candidate(self, form: Form) -> Candidate:
        """Weigh the final lists of a form, and evaluate it with them."""
        settings = self._ranking_settings(form)
        builder = RankingBuilder(settings, self.byte_budget, self.fitter)
        narrow = _first_columns(form.table.ranking, form.dim)
        built = builder.build(narrow, self._named(form, self.race.some))
        score = self.race.everyone(built.ranking, {"start": form.name, "chosen": True})
        return Candidate(form.table.config(self.config, form.dim, built.config), score, self.build)

    def _ranking_settings(self, form: Form) -> RankingConfig:
        update = {"bits": form.bits, "lists": None, "fit_lists": False, "list_weight": form.list_weight}
        return self.config.ranking.model_copy(update=update)

    def _sizes(self, most: int) -> Iterator[tuple[int, int]]:
        return sizes(self.byte_budget, self.dataset.num_items, min(most, self._most_columns))

    def _named(self, form: Form, objective: Objective) -> Objective:
        """Return the objective with the form's name in its reports."""
        return lambda ranking, facts: objective(ranking, {"start": form.name, **facts})

    @property
    def _settings(self) -> AlsSettings:
        settings = getattr(self.config.method, "als", None)
        return settings if isinstance(settings, AlsSettings) else AlsSettings()

    @property
    def _most_columns(self) -> int:
        return max(self.dataset.num_items // _LEAST_ITEMS_PER_COLUMN, 1)


def sizes(byte_budget: int, num_items: int, most: int) -> Iterator[tuple[int, int]]:
    """Return widths up to `most` and bits of tables that take a fifth to four fifths of the byte budget.

    Widths are the same for every budget, so that what is tried for a file is tried for one of twice the size as well,
    unless it takes less than a fifth of that.
    """
    policy = SelectionPolicy.for_catalogue(num_items)
    widths = [width for width in _TABLE_WIDTHS if width <= most]
    for bits in (*policy.table_bits, *policy.full_width_bits):
        for width in widths:
            share = packed_table_bytes(num_items, width, bits) / max(byte_budget, 1)
            is_whole = width == widths[-1]
            if share <= _MOST_TABLE_SHARE and (is_whole or (share >= _LEAST_TABLE_SHARE and bits in policy.table_bits)):
                yield width, bits


def _first_columns(ranking: Ranking, width: int) -> Ranking:
    """Keep the first columns alone: they are those that matter most."""
    return replace(ranking, users=ranking.users[:, :width], items=np.ascontiguousarray(ranking.items[:, :width]))
