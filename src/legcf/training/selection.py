# SPDX-License-Identifier: Apache-2.0
"""Select on validation what the items' vectors are made of: codes of a codebook, or a table of few bits per value.

Which is best differs between data sets more than anything else about a model: a small codebook has the most accuracy
per byte where items are many, a factorisation in few bits where they are few, singular vectors where data is dense.
Tables are not trained, so every one of them is evaluated with its lists and in its final precision. Every selection
here is made by `Evaluator.selection_score`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from legcf.core.config import RankingConfig, RunConfig
from legcf.core.hill_climb import climb
from legcf.core.random_streams import Stream
from legcf.data.interactions import Dataset
from legcf.factorisation.als import AlsSettings, with_alpha
from legcf.factorisation.folds import best_factorisation
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.recipe import ListFitter, Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.selection_policy import SelectionPolicy
from legcf.ranking.tables.embedding_table import packed_table_bytes
from legcf.training.registry import resolve
from legcf.training.session import RunSession as Session
from legcf.training.shared_work import without_size

if TYPE_CHECKING:
    import torch

    from legcf.training.model import GraphModel

Build = Callable[[RunConfig], "GraphModel"]
"""Makes a model with its first values."""

# Chosen while tables and lists were made, on validation of Gowalla, Yelp2018, LastFM and ml-1m (docs/study.md, section
# 11, and docs/results.md). Values without a note on alternatives were not measured one by one.
_FACTORS = (128, 256, 384)  # columns of a factorisation; wider is better on large data alone
_FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 10.0, 1.25, 80.0  # λ of a factorisation; three values were tried before
_TRIAL_FACTORS = 64  # columns, wide enough to find α by; a table of 64 needs twice the α of one of 128 (section 9)
_POPULARITY_POWERS = (0.3, 0.5)  # c of singular vectors
_MOST_SINGULAR = 512  # columns
_HISTORY_POWER = 0.5  # an item of a history weighs its degree to minus this, beside the c of its vectors
_TABLE_SHARES = (0.25, 0.5, 0.75)  # of the byte budget; the rest is for the lists
_MOST_TABLE_SHARE = 0.9  # of the byte budget, so that some is left for lists
_LEAST_WIDTH = 16  # columns
_LEAST_ITEMS_PER_COLUMN = 4
_TRIAL_LIST_SHARE, _ENTRY_BYTES, _LEAST_ENTRIES = 0.5, 2, 4.0  # of the byte budget; per entry; entries per item
_SHORTLIST_RATIO = 0.98  # of the score of the better kind of table: what few bits may still turn round


@dataclass(frozen=True, eq=False)
class Selected:
    """Hold a model that is ready to rank, and the settings that give it again."""

    model: GraphModel
    ranking: Ranking
    config: RunConfig


@dataclass(frozen=True, eq=False)
class Candidate(Selected):
    """Hold a model that needs no training, and its selection score."""

    score: float
    weights: Mapping[str, torch.Tensor] | None = None
    """Those it was evaluated with, where the model itself is trained meanwhile."""

    def restored(self) -> Selected:
        """Return the model as it was evaluated."""
        if self.weights is not None:
            self.model.load_state_dict(self.weights)
            self.model.rebuild()
        return self


@dataclass(frozen=True, eq=False)
class Untrained:
    """Hold what is selected before training."""

    ranking: RankingConfig
    """The settings of the ranking, with those of the lists that were selected."""
    candidate: Candidate | None = None
    """The best model that needs no training; training has to beat its score. None where nothing is selected."""
    skips_training: bool = False
    """Whether the candidate is so far ahead of the model's start that training cannot make up for it."""


def select_untrained(session: Session, builder: RankingBuilder, build: Build, report: bool) -> Untrained:
    """Select the best candidate that needs no training: a quantised table, or the model before its first epoch."""
    config, dataset, byte_budget, fitter = session.config, session.dataset, builder.byte_budget, builder.fitter
    selects = config.ranking.search_representation and session.validates
    if not selects or byte_budget is None or fitter is None:
        return Untrained(config.ranking)
    objective = session.objective("choose", report=report)
    if config.ranking.fit_lists:
        builder = replace(builder, config=_list_settings(session, builder, fitter, objective))
    with_lists = config.model_copy(update={"ranking": builder.config})
    table = TableSearch(with_lists, dataset, byte_budget, fitter, build, objective).best()
    start = _start(session, builder, objective)
    if table is None or table.score <= start.score:
        return Untrained(builder.config, start)
    policy = SelectionPolicy.for_catalogue(dataset.num_items)
    return Untrained(builder.config, table, start.score < policy.skip_training_below * table.score)


def _list_settings(
    session: Session, builder: RankingBuilder, fitter: ListFitter, objective: Objective
) -> RankingConfig:
    """Select the settings of the lists beside the model's start; those of every table are the same.

    What lists are best hardly depends on the vectors beside them.
    """
    config, quantised = session.config, builder.quantised(session.model.ranking())
    selected = session.options.work.once(
        session.dataset.train,
        without_size(config, "list settings"),
        lambda: fitter.settings(quantised, config.ranking, objective),
    )
    return selected.model_copy(update={"fit_lists": False, "bytes": config.ranking.bytes})


def _start(session: Session, builder: RankingBuilder, objective: Objective) -> Candidate:
    """Evaluate the model before its first epoch, with its lists."""
    config, model = session.config, session.model
    built = builder.build(model.ranking(), objective)
    score = objective(built.ranking, {"start": config.method.name})
    zero_epochs = config.training.model_copy(update={"epochs": 0})
    config = config.model_copy(update={"training": zero_epochs, "ranking": built.config})
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return Candidate(model, built.ranking, config, score, weights)


def train_or_keep(session: Session, builder: RankingBuilder, untrained: Untrained) -> Selected:
    """Return the trained model, or the untrained candidate if it scores higher.

    Training is skipped if the candidate is far ahead. In a large catalogue the candidate has to be ahead by a margin,
    in a small one the trained model has to. Lists change what is best: codes that rank better after training may do
    worse beside them.
    """
    candidate = untrained.candidate
    if candidate is not None and untrained.skips_training:
        return candidate.restored()
    session.options.work.run(session)
    objective = session.objective("lists", everyone=True)
    built = builder.build(session.model.ranking(), objective if session.validates else None)
    if candidate is not None:
        handicap = SelectionPolicy.for_catalogue(session.dataset.num_items).trained_handicap
        score = session.evaluator.selection_score(session.evaluator.metrics(built.ranking))
        if handicap * score < candidate.score:
            return candidate.restored()
    config = session.config.model_copy(update={"ranking": built.config})
    return Selected(session.model, built.ranking, config)


@dataclass(frozen=True)
class Table:
    """Hold the settings of a table that is tried: items with vectors of their own, users as their histories."""

    kind: str
    """als or spectral."""
    dim: int
    setting: str
    """What is tried, as reports name it: λ=20, c=0.3."""
    config: RunConfig

    @classmethod
    def of(cls, config: RunConfig, kind: str, setting: str, method: dict[str, Any], item_power: float) -> Table:
        """Make the settings of a table from those of a run and from what is tried."""
        overrides = {"method": {"initial": kind, **method}, "backbone": {"item_power": item_power}}
        made = resolve("full", "history", "items", config.seed, overrides, config.data)
        made = made.model_copy(update={"ranking": config.ranking, "preset": config.preset})
        return cls(kind, method["dim"], setting, made)

    def narrowed(self, dim: int, ranking: RankingConfig) -> Table:
        """Return the same table with fewer columns and these settings of its ranking."""
        method = self.config.method.model_copy(update={"dim": dim})
        return replace(self, dim=dim, config=self.config.model_copy(update={"method": method, "ranking": ranking}))

    def named(self, objective: Objective) -> Objective:
        """Return the objective with the table's name in its reports."""
        return lambda ranking, facts: objective(ranking, {"start": self.name, **facts})

    @property
    def name(self) -> str:
        return f"{self.kind} {self.dim} {self.setting}"


@dataclass(frozen=True, eq=False)
class _Trial:
    """Hold a table that was tried as it is, without rounding, and the list weight that suits it."""

    table: Table
    model: GraphModel
    list_weight: float
    score: float


@dataclass(frozen=True, eq=False)
class TableSearch:
    """Search for the item table, factorised or singular, that ranks best within the byte budget."""

    config: RunConfig
    """The settings of the run; ridge and powers of the lists are as configured here."""
    dataset: Dataset
    byte_budget: int
    fitter: ListFitter
    build: Build
    objective: Objective

    def best(self) -> Candidate | None:
        """Try tables as they are, then those that may still win in every number of bits; None where none fits."""
        widest = self._widest()
        if widest < _LEAST_WIDTH:
            return None
        trials = self._trials(widest)
        leading = max(trial.score for trial in trials.values())
        shortlist = [trial for trial in trials.values() if trial.score >= _SHORTLIST_RATIO * leading]
        candidates = [candidate for trial in shortlist if (candidate := self._quantised(trial)) is not None]
        return max(candidates, key=lambda candidate: candidate.score, default=None)

    def _trials(self, widest: int) -> dict[str, _Trial]:
        """Return the best trial of each kind of table."""
        entries = max(_LEAST_ENTRIES, self.byte_budget * _TRIAL_LIST_SHARE / _ENTRY_BYTES / self._num_items)
        lists = self.fitter.lists(self.config.ranking, round(entries * self.dataset.num_items), refit=False)
        best: dict[str, _Trial] = {}

        def score(table: Table) -> float:
            trial = self._tried(table, lists, best.get(table.kind))
            if table.kind not in best or trial.score > best[table.kind].score:
                best[table.kind] = trial
            return trial.score

        try_factorisations(self.config, self.dataset, widest, score)
        for power in _POPULARITY_POWERS:
            method = {"dim": min(_MOST_SINGULAR, widest), "popularity_power": power}
            score(Table.of(self.config, "spectral", f"c={power:g}", method, _HISTORY_POWER + power))
        return best

    def _tried(self, table: Table, lists: ItemLists, before: _Trial | None) -> _Trial:
        """Evaluate a table beside these lists; `before` is the best of its kind so far."""
        settings, objective, fitter = self.config.ranking, table.named(self.objective), self.fitter
        model = self.build(table.config)
        ranking = model.ranking()
        weight = settings.list_weight if before is None else before.list_weight
        if before is None or SelectionPolicy.for_catalogue(self.dataset.num_items).weighs_lists_per_table:
            weight, score = fitter.weighed(ranking, lists, weight, objective, settings)
        else:  # what suits the first table of a kind about suits the others, and evaluating takes long
            score = fitter.score(ranking, lists, weight, objective, settings)
        return _Trial(table, model, weight, score)

    def _quantised(self, trial: _Trial) -> Candidate | None:
        """Select the width and bits that rank best beside the lists that the byte budget then allows."""
        whole, objective = trial.model.ranking(), trial.table.named(self.objective)
        best: tuple[float, int, RankingConfig] | None = None
        for width, bits in forms(self.byte_budget, whole.num_items, whole.items.shape[1]):
            update = {"bits": bits, "lists": None, "fit_lists": False, "list_weight": trial.list_weight}
            settings = self.config.ranking.model_copy(update=update)
            builder = RankingBuilder(settings, self.byte_budget, self.fitter)
            narrow = builder.quantised(_first_columns(whole, width))
            lists = self.fitter.lists(settings, builder.entries(narrow), refit=False)
            weight, score = self.fitter.weighed(narrow, lists, trial.list_weight, objective, settings)
            if best is None or score > best[0]:
                best = score, width, settings.model_copy(update={"list_weight": weight})
        if best is None:
            return None
        _, width, settings = best
        table = trial.table.narrowed(width, settings)
        model = self.build(table.config)
        builder = RankingBuilder(settings, self.byte_budget, self.fitter)
        built = builder.build(model.ranking(), table.named(self.objective))
        score = self.objective(built.ranking, {"start": table.name, "chosen": True})
        return Candidate(model, built.ranking, table.config.model_copy(update={"ranking": built.config}), score)

    def _widest(self) -> int:
        widths = [width for width, _ in forms(self.byte_budget, self.dataset.num_items, _MOST_SINGULAR)]
        return min(max(widths, default=0), max(self.dataset.num_items // _LEAST_ITEMS_PER_COLUMN, 1))

    @property
    def _num_items(self) -> int:
        return max(self.dataset.num_items, 1)


def try_factorisations(config: RunConfig, dataset: Dataset, widest: int, score: Callable[[Table], float]) -> None:
    """Try one factorisation in a small catalogue, several in a large one.

    A small catalogue has few validation pairs, and of many tables they prefer one by luck: the one that is tried is
    best on folds of the training pairs as well. In a large one α is found on training pairs, with the usual λ; then λ
    by doubling and halving on validation, and wider while that is better.
    """
    rng = Stream.FACTORISATION.generator(config.seed)

    @cache
    def tried(factors: int, settings: AlsSettings) -> float:
        method = {"dim": min(factors, widest), "als": settings.model_dump()}
        return score(Table.of(config, "als", f"λ={settings.regularisation:g}", method, _HISTORY_POWER))

    if SelectionPolicy.for_catalogue(dataset.num_items).fits_factorisation_on_folds:
        widths = tuple(factors for factors in _FACTORS if factors <= widest) or (widest,)
        tried(*best_factorisation(dataset, widths, rng, AlsSettings()))
        return
    usual = with_alpha(dataset.train, min(_TRIAL_FACTORS, widest), rng, AlsSettings(), quiet=True)

    def with_ridge(ridge: float) -> AlsSettings:
        return usual.model_copy(update={"regularisation": ridge})

    tried(_FACTORS[0], with_ridge(_FIRST_RIDGE))  # first: a λ too large would give the lists too large a weight
    best = climb(lambda ridge: tried(_FACTORS[0], with_ridge(ridge)), _FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE)
    for before, factors in pairwise(_FACTORS):
        if factors > widest or tried(factors, with_ridge(best)) <= tried(before, with_ridge(best)):
            break


def forms(byte_budget: int, num_items: int, most: int) -> Iterator[tuple[int, int]]:
    """Return widths up to `most` and bits that take about `_TABLE_SHARES` of the byte budget."""
    policy, seen = SelectionPolicy.for_catalogue(num_items), set()
    for bits in (*policy.table_bits, *policy.full_width_bits):
        least = most if bits in policy.full_width_bits else _LEAST_WIDTH
        for share in _TABLE_SHARES:
            width = min(int(share * byte_budget / max(num_items, 1) * 8 / bits) // 8 * 8, most)
            fits = width >= least and packed_table_bytes(num_items, width, bits) <= _MOST_TABLE_SHARE * byte_budget
            if fits and (width, bits) not in seen:
                yield width, bits
                seen.add((width, bits))


def _first_columns(ranking: Ranking, width: int) -> Ranking:
    """Keep the first columns alone: they are those that matter most."""
    return replace(ranking, users=ranking.users[:, :width], items=np.ascontiguousarray(ranking.items[:, :width]))
