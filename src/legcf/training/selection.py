# SPDX-License-Identifier: Apache-2.0
"""What the items' vectors are made of, chosen on validation: codes of a codebook, or a table of few bits per value.

Which is best differs between data sets more than anything else about a model: a small codebook has the most accuracy
per byte where items are many, a factorisation in few bits where they are few, singular vectors where data is dense.
Tables are not trained, so every one of them is judged with its lists and in its final precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from legcf.core.config import RunConfig
from legcf.core.hill_climb import climb
from legcf.data.interactions import Dataset
from legcf.evaluation import selection_score
from legcf.factorisation.als import AlsSettings, with_alpha
from legcf.factorisation.folds import best_factorisation
from legcf.ranking.builder import BuiltRanking, RankingBuilder
from legcf.ranking.item_lists.recipe import ListFitter, Objective
from legcf.ranking.ranking import Ranking
from legcf.ranking.selection_policy import SelectionPolicy
from legcf.ranking.tables.embedding_table import packed_table_bytes
from legcf.training import shared_work
from legcf.training.loop import Session
from legcf.training.model import GraphModel
from legcf.training.registry import resolve
from legcf.training.shared_work import SharedWork

Build = Callable[[RunConfig], GraphModel]
"""A model with its first values."""

_FACTORS = (128, 256, 384)  # wider is better on large data alone
_FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 10.0, 1.25, 80.0  # λ of a factorisation

_POPULARITY_POWERS = (0.3, 0.5)  # c of singular vectors
_MOST_SINGULAR = 512
_SHARES = (0.25, 0.5, 0.75)  # of the room, for the table; the rest is the lists'
_LEAST_WIDTH = 16
_SHORTLIST_RATIO = 0.98  # of the better kind of table: what few bits may still turn round
_TRIAL_FACTORS = 64  # wide enough to find α by


@dataclass(frozen=True, eq=False)
class Choice:
    """A model that is ready to rank, how it was judged, and the settings that give it again."""

    model: GraphModel
    tuned: BuiltRanking
    config: RunConfig
    score: float
    leads: bool = False
    """Whether it is so far ahead of a model's start that training cannot make up for it."""
    weights: Mapping[str, torch.Tensor] | None = None
    """Of a model that is trained meanwhile: those it was judged with."""

    def taken(self) -> tuple[GraphModel, BuiltRanking, RunConfig]:
        if self.weights is not None:
            self.model.load_state_dict(self.weights)
            self.model.rebuild()
        return self.model, self.tuned, self.config


def best_without_training(
    session: Session,
    config: RunConfig,
    byte_budget: int | None,
    builder: RankingBuilder,
    build: Build,
    reported: bool,
    work: SharedWork | None,
) -> Choice | None:
    """What training has to better, where the making of vectors is to be chosen: the best table, or its own start.

    It is found before any training, and so the same again when a run is resumed; then nothing is reported twice.
    """
    if not (
        config.ranking.search_representation
        and byte_budget is not None
        and session.validates
        and builder.fitter is not None
    ):
        return None
    dataset = session.dataset
    judge = session.judge("choose", reported=reported)
    if config.ranking.fit_lists:
        rounded, fitter = builder.quantised(session.model.ranking()), builder.fitter
        key = shared_work.without_size(config, "list settings")
        found = shared_work.once(work, dataset.train, key, lambda: fitter.settings(rounded, config.ranking, judge))
        builder.config = found.model_copy(update={"fit_lists": False, "bytes": config.ranking.bytes})
    with_list_settings = config.model_copy(update={"ranking": builder.config})
    table = best_table(with_list_settings, dataset, byte_budget, builder.fitter, build, judge)
    tuned = builder.build(session.model.ranking(), judge)
    score = judge(tuned.ranking, {"start": config.method.name})
    zero_epochs = config.training.model_copy(update={"epochs": 0})
    weights = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}
    as_it_is = config.model_copy(update={"training": zero_epochs, "ranking": tuned.config})
    start = Choice(session.model, tuned, as_it_is, score, weights=weights)
    if table is None or table.score <= score:
        return start
    policy = SelectionPolicy.for_catalogue(dataset.num_items)
    return replace(table, leads=score < policy.skip_training_below * table.score)


def train_or_keep(
    session: Session, config: RunConfig, untrained: Choice | None, work: SharedWork | None
) -> tuple[GraphModel, BuiltRanking, RunConfig]:
    """Train and tune, or take what is not trained: without training where that has no point, else if it is better.

    Better is by some margin where items are many, and not worse by it where they are few. Lists change what is best:
    codes that rank better after training may do worse beside them.
    """
    if untrained is not None and untrained.leads:
        return untrained.taken()
    shared_work.run(work, session)
    tuned = session.tuned()
    handicap = SelectionPolicy.for_catalogue(session.dataset.num_items).trained_handicap
    if (
        untrained is not None
        and handicap * selection_score(session.validate(tuned.ranking), config.training.monitor) < untrained.score
    ):
        return untrained.taken()
    return session.model, tuned, config.model_copy(update={"ranking": tuned.config})


def best_table(
    config: RunConfig, dataset: Dataset, byte_budget: int, fitter: ListFitter, build: Build, judge: Objective
) -> Choice | None:
    """The table of items, factorised or singular, that ranks best within the room; None where none fits.

    What the lists are like hardly depends on the vectors beside them: their ridge and powers are as configured.
    """
    widest = _widest(byte_budget, dataset.num_items)
    if widest < _LEAST_WIDTH:
        return None
    settings = config.ranking
    lists = fitter.lists(settings, round(_entries_per_item(byte_budget, dataset) * dataset.num_items), refit=False)
    best: dict[str, tuple[float, RunConfig, GraphModel]] = {}  # of each kind
    weights: dict[str, float] = {}  # of the lists, for each kind
    policy = SelectionPolicy.for_catalogue(dataset.num_items)

    def score(start: RunConfig) -> float:
        model, kind = build(start), start.method.model_dump()["initial"]
        ranking, told = model.ranking(), _named(judge, start)
        if policy.weighs_lists_per_table or kind not in weights:
            weight, found = fitter.weighed(ranking, lists, weights.get(kind, settings.list_weight), told, settings)
        else:  # what suits the first table of a kind suits the others, about, and judging takes long
            weight, found = weights[kind], fitter.judged(ranking, lists, weights[kind], told, settings)
        if kind not in best or found > best[kind][0]:
            best[kind], weights[kind] = (found, start, model), weight
        return found

    _try_factorisations(config, dataset, widest, score)
    for power in _POPULARITY_POWERS:
        singular = {"initial": "spectral", "dim": min(_MOST_SINGULAR, widest), "popularity_power": power}
        score(_table(config, singular, item_power=0.5 + power))
    leading = max(found for found, _, _ in best.values())
    fitted = [
        _fitted(
            start, model, settings.model_copy(update={"list_weight": weights[kind]}), byte_budget, fitter, build, judge
        )
        for kind, (found, start, model) in best.items()
        if found >= _SHORTLIST_RATIO * leading
    ]
    return max((one for one in fitted if one is not None), key=lambda one: one.score, default=None)


def _fitted(
    start: RunConfig,
    model: GraphModel,
    settings: Any,
    byte_budget: int,
    fitter: ListFitter,
    build: Build,
    judge: Objective,
) -> Choice | None:
    """The split of the room between the table and its lists that is judged best."""
    whole, found = model.ranking(), None
    for width, bits in _forms(byte_budget, whole.num_items, whole.items.shape[1]):
        ranking_settings = settings.model_copy(update={"bits": bits, "lists": None, "fit_lists": False})
        builder = RankingBuilder(ranking_settings, byte_budget, fitter)
        narrow = builder.quantised(_narrowed(whole, width))
        lists = fitter.lists(ranking_settings, builder.entries(narrow), refit=False)
        weight, score = fitter.weighed(narrow, lists, settings.list_weight, _named(judge, start), ranking_settings)
        if found is None or score > found[0]:
            found = score, width, ranking_settings.model_copy(update={"list_weight": weight})
    if found is None:
        return None
    _, width, ranking_settings = found
    method = start.method.model_copy(update={"dim": width})
    config = start.model_copy(update={"method": method, "ranking": ranking_settings})
    final = build(config)
    tuned = RankingBuilder(ranking_settings, byte_budget, fitter).build(final.ranking(), _named(judge, config))
    score = judge(tuned.ranking, {"start": _name(config), "chosen": True})
    return Choice(final, tuned, config.model_copy(update={"ranking": tuned.config}), score)


def _try_factorisations(config: RunConfig, dataset: Dataset, widest: int, score: Callable[[RunConfig], float]) -> None:
    """One table where items are few, several where they are many.

    Where items are few, so are validation pairs, and of many tables they prefer one by luck: the one that is tried is
    best on folds of the training pairs as well. Where items are many, α is found on training pairs, with the usual λ;
    then λ by doubling and halving on validation, and wider while that is better.
    """
    rng = np.random.default_rng(config.seed)

    @cache
    def tried(factors: int, settings: AlsSettings) -> float:
        method = {"initial": "als", "dim": min(factors, widest), "als": settings.model_dump()}
        return score(_table(config, method, item_power=0.5))

    if SelectionPolicy.for_catalogue(dataset.num_items).fits_factorisation_on_folds:
        widths = tuple(factors for factors in _FACTORS if factors <= widest) or (widest,)
        tried(*best_factorisation(dataset, widths, rng, AlsSettings()))
        return
    usual = with_alpha(dataset.train, min(_TRIAL_FACTORS, widest), rng, AlsSettings(), quiet=True)

    def ridged(ridge: float) -> AlsSettings:
        return usual.model_copy(update={"regularisation": ridge})

    tried(_FACTORS[0], ridged(_FIRST_RIDGE))  # first of all: a λ too large would give the lists too large a weight
    best = climb(lambda ridge: tried(_FACTORS[0], ridged(ridge)), _FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE)
    for before, factors in pairwise(_FACTORS):
        if factors > widest or tried(factors, ridged(best)) <= tried(before, ridged(best)):
            break


def _table(config: RunConfig, method: dict[str, Any], item_power: float) -> RunConfig:
    """Items with vectors of their own, users as their histories, nothing to train."""
    made = resolve(
        "full",
        "history",
        "items",
        config.seed,
        {"method": method, "backbone": {"item_power": item_power}},
        config.data,
    )
    return made.model_copy(update={"ranking": config.ranking, "preset": config.preset})


def _forms(byte_budget: int, num_items: int, most: int) -> Iterator[tuple[int, int]]:
    """Widths and bits that take about these shares of the room.

    Six bits are only worth their room beside all of the columns. Where items are many, more than two never were: pairs
    held out once preferred three on Gowalla, and test pairs did not (docs/findings.md).
    """
    policy, seen = SelectionPolicy.for_catalogue(num_items), set()
    for bits in (*policy.table_bits, *policy.full_width_bits):
        least = most if bits in policy.full_width_bits else _LEAST_WIDTH
        for share in _SHARES:
            width = min(int(share * byte_budget / max(num_items, 1) * 8 / bits) // 8 * 8, most)
            if width >= least and packed_table_bytes(num_items, width, bits) <= 0.9 * byte_budget:
                if (width, bits) not in seen:
                    yield width, bits
                seen.add((width, bits))


def _widest(byte_budget: int, num_items: int) -> int:
    widths = [width for width, _ in _forms(byte_budget, num_items, _MOST_SINGULAR)]
    return min(max(widths, default=0), max(num_items // 4, 1))


def _entries_per_item(byte_budget: int, dataset: Dataset) -> float:
    """About half of the room, at two bytes per entry."""
    return max(4.0, byte_budget / 4 / max(dataset.num_items, 1))


def _narrowed(ranking: Ranking, width: int) -> Ranking:
    """The first columns alone: they are those that matter most."""
    return replace(ranking, users=ranking.users[:, :width], items=np.ascontiguousarray(ranking.items[:, :width]))


def _named(judge: Objective, config: RunConfig) -> Objective:
    return lambda ranking, facts: judge(ranking, {"start": _name(config), **facts})


def _name(config: RunConfig) -> str:
    method = config.method.model_dump()
    if method["initial"] == "als":
        return f"als {method['dim']} λ={method['als']['regularisation']:g}"
    return f"spectral {method['dim']} c={method['popularity_power']:g}"
