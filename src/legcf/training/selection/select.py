# SPDX-License-Identifier: Apache-2.0
"""Select on validation what the items' vectors are made of: codes of a codebook, or a table of few bits per value.

Which is best differs between data sets more than anything else about a model: a small codebook has the most accuracy
per byte where items are many, a factorisation in few bits where they are few, singular vectors where data is dense.
Tables are not trained, so every one of them is evaluated with its lists and in its final precision. Every selection
here is made by `Evaluator.selection_score`.
"""

from __future__ import annotations

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
from legcf.ranking.selection_policy import MIN_IMPROVEMENT, SelectionPolicy, is_improvement
from legcf.training.build import Model
from legcf.training.selection.candidates import FEW_USERS, SOME_USERS, Build, Candidate, Race
from legcf.training.selection.table_search import TableSearch, sizes
from legcf.training.session import A_TABLE, FIND_ALPHA, TRAINING, Deadline, OutOfTime
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
    look: float | None = None
    """The score of a first look at tables, which are searched beside the trained codes; None: they have been."""


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
        best = _search(session, builder, build, race).best_alone()
        return Untrained(best.config.ranking, best, skips_training=True, lead=best.lead, rival=best.rival)
    if config.ranking.fit_lists:
        builder = replace(builder, config=_list_settings(session, builder, fitter, race))
    start, policy = _start(session, builder, race), SelectionPolicy.of(dataset.train)
    search = _search(session, builder, build, race)
    if policy.favours_training and config.training.epochs:
        look = search.look()
        if look is None or start.score >= policy.skip_training_below * look:
            return Untrained(builder.config, start, look=look)
    table = search.best(start)
    if table is None or (
        table.score <= start.score if policy.favours_training else is_improvement(start.score, table.score)
    ):
        return Untrained(builder.config, start)
    skips = start.score < policy.skip_training_below * table.score
    return Untrained(builder.config, table, skips, lead(table.score, start.score))


def _search(session: Session, builder: RankingBuilder, build: Build, race: Race) -> TableSearch:
    """Return the search for a table beside lists as this builder has them."""
    assert builder.byte_budget is not None
    assert builder.fitter is not None
    config, options = session.config.model_copy(update={"ranking": builder.config}), session.options
    of = (session.dataset, builder.byte_budget, builder.fitter)
    return TableSearch(config, *of, build, race, options.work, options.deadline)


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


def train_or_keep(
    session: Session, builder: RankingBuilder, build: Build, untrained: Untrained, resumes: bool
) -> Selected:
    """Return the model that the session trains, or goes on to train, or one that needs no training if it scores higher.

    Training is skipped if that one is far ahead. In a large catalogue it has to be ahead by a margin, in a small one
    the trained model has to. Lists change what is best: codes that rank better after training may do worse beside them.
    """
    candidate = untrained.candidate
    if candidate is not None and (untrained.skips_training or not session.config.training.epochs):
        return _made(candidate, builder, untrained.lead, untrained.rival)
    try:
        trained = _trained(session, builder, candidate is not None, resumes)
    except OutOfTime:
        if candidate is None:
            raise
        candidate = _or_table(candidate, session, builder, build, untrained.look, candidate)
        return _made(candidate, builder, untrained.lead, untrained.rival)
    if candidate is None:
        return _made(trained, builder)
    candidate = _or_table(candidate, session, builder, build, untrained.look, trained)
    if _is_undecided(candidate, trained, session):
        candidate, trained = _evaluated_by_all([candidate, trained], session, builder)
    score = trained.score
    if SelectionPolicy.of(session.dataset.train).favours_training:
        keeps = is_improvement(candidate.score, score)
    else:
        keeps = not is_improvement(score, candidate.score)
    session.options.work.forget(builder.fitter)
    if keeps:
        return _made(candidate, builder, lead(candidate.score, score), "the trained codes")
    return _made(trained, builder, lead(score, candidate.score), "what needs no training")


def _is_undecided(candidate: Candidate, trained: Candidate, session: Session) -> bool:
    """Say whether a table would be preferred to trained codes, if only its lead were sure.

    On Yelp2018 (8 MB) a table leads by 2.1 % ± 0.7 among all 31,000 users with validation pairs, by 1.2 % ± 1.8 among
    5,000 of them.
    """
    is_table = candidate.config.method.name != session.config.method.name
    leads = candidate.score > MIN_IMPROVEMENT * trained.score and not lead(candidate.score, trained.score).exceeds()
    favours = SelectionPolicy.of(session.dataset.train).favours_training
    return is_table and leads and favours and session.options.deadline.allows(A_TABLE)


def _evaluated_by_all(candidates: list[Candidate], session: Session, builder: RankingBuilder) -> list[Candidate]:
    """Return candidates with their scores among everyone who has validation pairs."""
    objective = session.objective("decide", replace(session.evaluator, users=None))
    facts = [{"start": one.config.method.name} for one in candidates]
    rankings = (_made(one, builder).ranking for one in candidates)
    scores = [objective(ranking, named) for ranking, named in zip(rankings, facts, strict=True)]
    return [replace(one, score=score) for one, score in zip(candidates, scores, strict=True)]


def _or_table(
    candidate: Candidate, session: Session, builder: RankingBuilder, build: Build, look: float | None, rival: Candidate
) -> Candidate:
    """Return the best table where it scores higher than the candidate, and a first look says it may reach the rival."""
    if look is None:
        return candidate
    search = _search(session, builder, build, _race(session, "tables"))
    table = search.best(rival) if search.may_reach(rival, look) else None
    return candidate if table is None or table.score <= candidate.score else table


def _trained(session: Session, builder: RankingBuilder, compares: bool, resumes: bool) -> Candidate:
    """Train, weigh the lists beside the trained model, and evaluate it with them where there is another."""
    work = session.options.work
    work.forget(builder.fitter)
    if compares:
        session.options.deadline.require(TRAINING)
    if resumes:
        session.resume()
    work.run(session)
    session.release()
    work.forget(builder.fitter)
    if not session.validates:
        built = builder.build(session.model.ranking(), None)
        config = session.config.model_copy(update={"ranking": built.config})
        return Candidate(config, 0.0, lambda _: session.model)
    race = _race(session, "lists")
    sampled = builder.build(session.model.ranking(race.users), race.everyone)
    config = session.config.model_copy(update={"ranking": sampled.config})
    facts = {"trained": True}
    score = race.everyone(sampled.ranking, facts) if compares else 0.0
    quick_score = race.some(sampled.ranking, facts) if compares else 0.0
    return Candidate(config, score, lambda _: session.model, quick_score)


def _made(candidate: Candidate, builder: RankingBuilder, ahead: Lead | None = None, rival: str = "") -> Selected:
    """Make the model of a candidate and its ranking for all users."""
    model = candidate.make(candidate.config)
    built = replace(builder, config=candidate.config.ranking).build(model.ranking(), None)
    return Selected(model, built.ranking, candidate.config, ahead, rival)
