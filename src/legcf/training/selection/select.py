# SPDX-License-Identifier: Apache-2.0
"""Select on validation what the items' vectors are made of: codes of a codebook, or a table of few bits per value.

Which is best differs between data sets more than anything else about a model: a small codebook has the most accuracy
per byte where items are many, a factorisation in few bits where they are few, singular vectors where data is dense.
Tables are not trained, so every one of them is evaluated with its lists and in its final precision. Every selection
here is made by `Evaluator.selection_score`.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from legcf.core.config import RankingConfig, RunConfig
from legcf.core.random_streams import Stream
from legcf.data.interactions import Dataset
from legcf.factorisation.als import AlsSettings, with_alpha
from legcf.factorisation.folds import best_factorisation
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import Lead, lead
from legcf.ranking.selection_policy import SelectionPolicy, is_improvement
from legcf.training.build import Model
from legcf.training.selection.table_search import FEW_USERS, SOME_USERS, Build, Candidate, Race, TableSearch, sizes
from legcf.training.session import AFTER_TRAINING, FIND_ALPHA, TRAINING, Deadline, OutOfTime
from legcf.training.session import RunSession as Session
from legcf.training.shared_work import Work, without_size

_USUAL_ALPHA = 10.0  # where there is no time to find α: between what was best on LastFM (5) and on Gowalla (20)
_NARROW_FACTORS = 64  # columns, wide enough to find α and λ by where data is small


@dataclass(frozen=True, eq=False)
class Selected:
    """Hold a model that is ready to rank, and the settings that give it again."""

    model: Model
    ranking: Ranking
    config: RunConfig
    lead: Lead | None = None
    """By how much it is ahead of the best of the others, where there were others."""
    rival: str = ""
    """Which other that is."""

    @property
    def reason(self) -> dict[str, Any]:
        """Return what a run's metrics say of why this model was selected."""
        if self.lead is None:
            return {}
        return {"selected": {"ahead_of": self.rival, "lead": self.lead.difference, "error": self.lead.error}}


@dataclass(frozen=True, eq=False)
class Untrained:
    """Hold what is selected before training."""

    ranking: RankingConfig
    """The settings of the ranking, with those of the lists that were selected."""
    candidate: Candidate | None = None
    """The best model that needs no training; training has to beat its score. None where nothing is selected."""
    skips_training: bool = False
    """Whether the candidate is so far ahead of the others that training cannot make up for it."""
    lead: Lead | None = None
    """Of the candidate over the best of the others."""
    rival: str = "codes before training"
    """Which other that is."""


def with_factorisation(config: RunConfig, dataset: Dataset, work: Work, deadline: Deadline) -> RunConfig:
    """Fill in α and λ of the factorisation that a run with a selection starts from: tables are made of the same one.

    Where there is no time to find α, it is what suits most data.
    """
    settings = getattr(config.method, "als", None)
    unknown = isinstance(settings, AlsSettings) and settings.alpha is None
    if not (unknown and config.ranking.search_representation and dataset.validation.num_pairs):
        return config
    assert isinstance(settings, AlsSettings)
    if not deadline.allows(FIND_ALPHA):
        return _with_als(config, settings.model_copy(update={"alpha": _USUAL_ALPHA}))
    rng, width = Stream.FACTORISATION.generator(config.seed), config.method.model_dump()["dim"]

    def find() -> AlsSettings:
        if SelectionPolicy.of(dataset.train).fits_factorisation_on_folds:
            return best_factorisation(dataset, min(_NARROW_FACTORS, width), rng, settings)
        return with_alpha(dataset.train, width, rng, settings)

    found = work.once(dataset.train, without_size(config, "factorisation"), find)
    return _with_als(config, found)


def _with_als(config: RunConfig, settings: AlsSettings) -> RunConfig:
    return config.model_copy(update={"method": config.method.model_copy(update={"als": settings})})


def tries_tables_alone(config: RunConfig, dataset: Dataset, byte_budget: int | None) -> bool:
    """Return whether a selection tries nothing but tables, so that no codes are made, and nothing is trained."""
    if byte_budget is None or not config.ranking.search_representation or not dataset.validation.num_pairs:
        return False
    leaves_codes = byte_budget > SelectionPolicy.of(dataset.train).codes_within * dataset.num_items
    return leaves_codes and config.ranking.has_lists and any(sizes(byte_budget, dataset.train))


def select_untrained(session: Session, builder: RankingBuilder, build: Build, report: bool) -> Untrained:
    """Select the best candidate that needs no training: a quantised table, or the model before its first epoch."""
    config, dataset, byte_budget, fitter = session.config, session.dataset, builder.byte_budget, builder.fitter
    selects = config.ranking.search_representation and session.validates
    if not selects or byte_budget is None or fitter is None:
        return Untrained(config.ranking)
    race = _race(session, "choose", report)
    if session.model is None:
        options = session.options
        alone = TableSearch(config, dataset, byte_budget, fitter, build, race, options.work, options.deadline)
        best = alone.best_alone()
        return Untrained(best.config.ranking, best, skips_training=True, lead=best.lead, rival=best.rival)
    if config.ranking.fit_lists:
        builder = replace(builder, config=_list_settings(session, builder, fitter, race))
    start = _start(session, builder, race)
    with_lists = config.model_copy(update={"ranking": builder.config})
    policy, options = SelectionPolicy.of(dataset.train), session.options
    deadline = options.deadline.sooner(TRAINING + AFTER_TRAINING if policy.favours_training else 0.0)
    search = TableSearch(with_lists, dataset, byte_budget, fitter, build, race, options.work, deadline)
    table = None
    with suppress(OutOfTime):  # then the model's start is what there is
        table = search.best(start.quick_score)
    if table is None or (
        table.score <= start.score if policy.favours_training else is_improvement(start.score, table.score)
    ):
        return Untrained(builder.config, start)
    skips = start.score < policy.skip_training_below * table.score
    return Untrained(builder.config, table, skips, lead(table.score, start.score))


def _race(session: Session, stage: str, report: bool = True) -> Race:
    """Return the objectives of a selection, for rankings of the users who are evaluated while the model trains."""
    evaluator = session.evaluator.renumbered()
    evaluators = (evaluator.sampled(FEW_USERS), evaluator.sampled(SOME_USERS), evaluator)
    few, some, everyone = (session.objective(stage, one, report) for one in evaluators)
    users = session.evaluator.evaluated_users
    return Race(few, some, everyone, users, session.dataset.train.of_users(users))


def _list_settings(session: Session, builder: RankingBuilder, fitter: ListFitter, race: Race) -> RankingConfig:
    """Select the settings of the lists beside the model's start; those of every table are the same.

    What lists are best hardly depends on the vectors beside them.
    """
    config, quantised = session.config, builder.quantised(session.model.ranking(race.users))
    selected = fitter.settings(quantised, config.ranking, race.some, builder.entries(quantised))
    return selected.model_copy(update={"fit_lists": False, "bytes": config.ranking.bytes})


def _start(session: Session, builder: RankingBuilder, race: Race) -> Candidate:
    """Evaluate the model before its first epoch, with its lists."""
    config, model = session.config, session.model
    weighs = None if config.ranking.fit_lists else race.some  # else the weight has been selected with the ridge
    built = builder.build(model.ranking(race.users), weighs)
    facts = {"start": config.method.name}
    quick_score, score = race.some(built.ranking, facts), race.everyone(built.ranking, facts)
    zero_epochs = config.training.model_copy(update={"epochs": 0})
    config = config.model_copy(update={"training": zero_epochs, "ranking": built.config})
    weights = deepcopy(dict(model.state_dict()))

    def restore(_: RunConfig) -> Any:
        model.load_state_dict(weights)
        model.rebuild()
        return model

    return Candidate(config, score, restore, quick_score)


def train_or_keep(session: Session, builder: RankingBuilder, untrained: Untrained, resumes: bool) -> Selected:
    """Return the model that the session trains, or goes on to train, or the untrained candidate if it scores higher.

    Training is skipped if the candidate is far ahead. In a large catalogue the candidate has to be ahead by a margin,
    in a small one the trained model has to. Lists change what is best: codes that rank better after training may do
    worse beside them.
    """
    candidate = untrained.candidate
    if candidate is not None and (untrained.skips_training or not session.config.training.epochs):
        return _made(candidate, builder, untrained.lead, untrained.rival)
    try:
        return _trained_or_kept(session, builder, candidate, resumes)
    except OutOfTime:
        if candidate is None:
            raise
        return _made(candidate, builder, untrained.lead, untrained.rival)


def _trained_or_kept(session: Session, builder: RankingBuilder, candidate: Candidate | None, resumes: bool) -> Selected:
    work = session.options.work
    work.forget(builder.fitter)
    if candidate is not None:
        session.options.deadline.require(TRAINING)
    if resumes:
        session.resume()
    work.run(session)
    session.release()
    work.forget(builder.fitter)
    if not session.validates:
        built = builder.build(session.model.ranking(), None)
        return Selected(session.model, built.ranking, session.config.model_copy(update={"ranking": built.config}))
    trained = _trained(session, builder, compares=candidate is not None)
    work.forget(builder.fitter)
    if candidate is None:
        return _made(trained, builder)
    score = trained.score
    if SelectionPolicy.of(session.dataset.train).favours_training:
        keeps = is_improvement(candidate.score, score)
    else:
        keeps = not is_improvement(score, candidate.score)
    if keeps:
        return _made(candidate, builder, lead(candidate.score, score), "the trained codes")
    return _made(trained, builder, lead(score, candidate.score), "what needs no training")


def _trained(session: Session, builder: RankingBuilder, compares: bool) -> Candidate:
    """Weigh the lists beside the trained model, and evaluate it with them where there is another."""
    race = _race(session, "lists")
    sampled = builder.build(session.model.ranking(race.users), race.everyone)
    config = session.config.model_copy(update={"ranking": sampled.config})
    score = race.everyone(sampled.ranking, {"trained": True}) if compares else 0.0
    return Candidate(config, score, lambda _: session.model)


def _made(candidate: Candidate, builder: RankingBuilder, ahead: Lead | None = None, rival: str = "") -> Selected:
    """Make the model of a candidate and its ranking for all users."""
    model = candidate.make(candidate.config)
    built = replace(builder, config=candidate.config.ranking).build(model.ranking(), None)
    return Selected(model, built.ranking, candidate.config, ahead, rival)
