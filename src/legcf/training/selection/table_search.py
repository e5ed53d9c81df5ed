# SPDX-License-Identifier: Apache-2.0
"""Search for the table of few bits per value, factorised or singular, that ranks best within a byte budget.

Tables are not trained, so every one of them is evaluated with its lists and in its final precision, without a model:
only the winner becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

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
from legcf.training.selection.candidates import SURE, Build, Candidate, Form, Race, Table, Tried
from legcf.training.session import A_TABLE, Deadline, OutOfTime
from legcf.training.shared_work import Work

_Factorised = tuple[Table, tuple[FloatArray, FloatArray] | None, AlsSettings]
"""A table, the vectors of users and items if it was made of one factorisation, and the settings."""
_Result = TypeVar("_Result")

# Chosen while tables and lists were made, on validation of Gowalla, Yelp2018, LastFM and ml-1m (docs/study.md, section
# 11, and docs/results.md). Values without a note on alternatives were not measured one by one.
_FACTORS = (128, 256, 384)  # columns of a factorisation; wider is better on large data alone
# Columns of the first one where items are many and a file can hold them. On Yelp2018 (8 MB, two bits, with lists, all
# validation users) 256 columns have 0.0742 / 0.0420, trained codes of 128 0.0721 / 0.0407: a first one of 128 in two
# bits fell so far behind codes that no wider one was tried.
_WIDE_FACTORS = 256
# Training pairs below which wider ones are not tried (LastFM, 42,135, gains nothing by them), but several are averaged.
_WIDE_PAIRS = 10**5
# Factorisations that are averaged, and columns that are kept (docs/reproduction/study-tables.md, section 13).
_AVERAGED, _AVERAGED_COLUMNS = 5, 192
_MOST_RIDGE = 80.0  # λ of a factorisation in a large catalogue; it is doubled while that is better
_MORE_ROUNDS = 2  # of a factorisation that goes on from another with half its λ; others were not measured
_POPULARITY_POWERS = (0.3, 0.5)  # c of singular vectors
_MOST_SINGULAR = 512  # columns
_FIRST_SINGULAR = 2  # times the columns of the best table are found at first: the last of them are not exact
_DENSE = 0.01  # pairs / (users · items) above which singular vectors are tried: they lose on LastFM (0.005)
_TABLE_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # columns; the same for every file size
_LEAST_TABLE_SHARE, _MOST_TABLE_SHARE = 0.4, 0.8  # of the byte budget; the rest is for the lists
# Where pairs are few: on LastFM (400 kB) 192 columns of 3 bits, not 128 of 4, gain 0.3 ± 0.2 % on held-out pairs.
_MOST_TABLE_SHARE_OF_FEW = 0.88
_LEAST_ITEMS_PER_COLUMN = 4
# Of the lists beside a table where there are no codes, which they suit with more: 0.06 to 0.25 are best on LastFM and
# movielens-small.
_FIRST_LIST_WEIGHT = 0.125
# A ratio of scores, of trained codes to a first look at tables, which has to be sure (`SURE`). The best table has up to
# 2.7 % more than the look (Gowalla, Yelp2018, a third of Amazon-book), and is taken if it has 1 % more than trained
# codes.
_REACH = 1.015


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

    def look(self) -> float | None:
        """Evaluate a table that is at hand: the first columns of the factorisation that the codes started from.

        Returns None where no table fits, or there is no time for one.
        """
        return self._in_time(self._look)

    def _look(self) -> float:
        table = self._factorised(self._codes_width, self._settings, None)[0]
        width, bits = max(self._sizes(table.width), key=lambda size: packed_table_bytes(self.dataset.num_items, *size))
        weighed = self._weighed(Form(_first_columns(table, width), bits, self.config.ranking.list_weight))
        return self._score(weighed.form, self.race.everyone)

    def may_reach(self, rival: Candidate, look: float) -> bool:
        """Say whether the best table may be ahead of a rival, by the first look at a table as wide as fits."""
        is_sure = rival.score >= _REACH * look and lead(rival.score, look).exceeds(SURE)
        return self._widest > self._codes_width or not is_sure

    def best(self, rival: Candidate) -> Candidate | None:
        """Select a form of a factorisation with the settings of that of the codes, then what else it could be made of.

        Returns None where no table fits, there is no time for one, or the rival is so far ahead that no λ would make up
        for it.
        """
        return self._in_time(lambda: self._best(rival))

    def _best(self, rival: Candidate) -> Candidate | None:
        first = self._first()
        best = self._best_form(first[0], self.config.ranking.list_weight)
        policy = SelectionPolicy.of(self.dataset.train)
        score = self._score(best.form, self.race.everyone) if policy.favours_training else best.score
        rival_score = rival.score if policy.favours_training else rival.quick_score
        if lead(rival_score, score).exceeds() and score < policy.hopeless_below * rival_score:
            return None
        if not policy.fits_factorisation_on_folds:
            best = self._with_more_ridge(best, first)
        best = self._of_all_kinds(best)
        if policy.favours_training and lead(rival.quick_score, best.score).exceeds():
            return None
        return self._candidate(best)

    def _in_time(self, make: Callable[[], _Result | None]) -> _Result | None:
        """Return what is made of tables; None where no table fits, or there is no time for one."""
        if self._widest and self.deadline.allows(A_TABLE):
            with suppress(OutOfTime):
                return make()
        return None

    def best_alone(self) -> Candidate:
        """Select a form of the first factorisation, then what else it could be made of; raise OutOfTime without any."""
        self.deadline.require(A_TABLE)
        return self._candidate(self._of_all_kinds(self._best_form(self._first()[0], _FIRST_LIST_WEIGHT)))

    def _first(self) -> _Factorised:
        if _are_few(self.dataset.train) and self.deadline.allows(_AVERAGED * A_TABLE):
            return self._averaged(self._settings), None, self._settings
        return self._factorised(self._first_width, self._settings, None)

    @property
    def _first_width(self) -> int:
        """Return the columns of the first factorisation: the most usual, or one that is wide where items are many."""
        is_wide = SelectionPolicy.of(self.dataset.train).favours_training and self._widest >= _WIDE_FACTORS
        return _WIDE_FACTORS if is_wide else min(_FACTORS[0], self._widest)

    def _with_more_ridge(self, best: Tried, before: _Factorised) -> Tried:
        """Double λ while that is better, each time from the vectors that half of it gave."""
        while (ridge := 2 * before[2].regularisation) <= _MOST_RIDGE and self.deadline.allows(A_TABLE):
            settings = before[2].model_copy(update={"regularisation": ridge})
            before = self._factorised(best.form.table.width, settings, before)
            form = replace(best.form, table=before[0])
            trial = Tried(form, self._score(form, self.race.some))
            if trial.score <= best.score:
                return best.over(trial)
            best = trial.over(best)
        return best

    def _of_all_kinds(self, best: Tried) -> Tried:
        """Return a wider factorisation or singular vectors where they are surely better than this form, or else it."""
        settings = AlsSettings(**best.form.table.method["als"])
        wider = [factors for factors in _FACTORS if factors > self._first_width]
        for factors in () if _are_few(self.dataset.train) else wider:
            if factors > self._widest or not self.deadline.allows(factors / _FACTORS[0] * A_TABLE):
                break
            trial = self._best_form(self._factorised(factors, settings, None)[0], best.form.list_weight)
            best = best.or_surely_better(trial)
            if best.form is not trial.form:
                break
        return self._with_singular(best) if self._is_dense and self.deadline.allows(A_TABLE) else best

    def _with_singular(self, best: Tried) -> Tried:
        """Return singular vectors where they are surely better than this form; all that fit are found if they may be.

        All powers of popularity have the same vectors.
        """
        first = self._singular_vectors(min(_FIRST_SINGULAR * best.form.table.width, self._widest))
        for power in _POPULARITY_POWERS:
            width = best.form.table.width
            vectors = first if first.shape[1] >= width else self._widest_vectors
            form = replace(best.form, table=self._singular(vectors[:, :width], power))
            alike = Tried(form, self._score(form, self.race.some))
            if lead(best.score, alike.score).exceeds():
                best = best.over(alike)
            else:
                table = self._singular(self._widest_vectors, power)
                best = best.or_surely_better(self._best_form(table, best.form.list_weight))
        return best

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

    def _averaged(self, settings: AlsSettings) -> Table:
        """Return the average of several factorisations: less of it is luck than of one."""
        train, rng = self.dataset.train, Stream.FACTORISATION.generator(self.config.seed)
        items = self.work.averaged_items(train, rng, settings, _AVERAGED)
        items = np.ascontiguousarray(items[:, : min(_AVERAGED_COLUMNS, self._widest)])
        ranking = pooled_ranking(train, items, HISTORY_POWER, self.race.histories)
        method = {"initial": "als", "als": settings.model_dump(), "factorisations": _AVERAGED}
        return Table(f"als λ={settings.regularisation:g} × {_AVERAGED}", method, ranking)

    @property
    def _is_dense(self) -> bool:
        train = self.dataset.train
        return train.num_pairs > _DENSE * train.num_users * train.num_items

    @cached_property
    def _widest_vectors(self) -> FloatArray:
        return self._singular_vectors(self._widest)

    def _singular_vectors(self, width: int) -> FloatArray:
        rng = Stream.FACTORISATION.generator(self.config.seed)
        return singular_vectors(self.dataset.train, width, rng)

    def _singular(self, vectors: FloatArray, power: float) -> Table:
        """Return the table of these singular vectors and a power of popularity."""
        train = self.dataset.train
        items = vectors * (np.maximum(train.item_degrees, 1) ** power).astype(np.float32)[:, None]
        ranking = pooled_ranking(train, items, HISTORY_POWER + power, self.race.histories)
        method = {"initial": "spectral", "popularity_power": power}
        return Table(f"spectral c={power:g}", method, ranking, HISTORY_POWER + power)

    def _best_form(self, table: Table, list_weight: float) -> Tried:
        """Select columns and bits: the largest table that fits, unless another is surely better beside its lists.

        On LastFM (400 kB) the largest is best on validation and on a fold of the training pairs, with a light list
        weight; few users at the weight that suits codes would prefer narrow ones.
        """
        items, tables = self.dataset.num_items, {table.width: table}
        by_size = sorted(self._sizes(table.width), key=lambda size: -packed_table_bytes(items, *size))
        for width, _ in by_size:
            if width not in tables:
                tables[width] = self._narrowed(table, width)
        forms = [Form(tables[width], bits, list_weight) for width, bits in by_size]
        best = self._weighed(forms[0])
        forms = [best.form, *(replace(form, list_weight=best.form.list_weight) for form in forms[1:])]
        for form in self.race.leaders(forms, self._score):
            if form is not forms[0]:
                best = best.or_surely_better(Tried(form, self._score(form, self.race.some)))
        return best

    def _narrowed(self, table: Table, width: int) -> Table:
        """Return a table of fewer columns: a factorisation of its own, whose columns are better than the first of more.

        Singular vectors are the same ones, and an average is narrowed as it was made.
        """
        if width == table.width or table.method["initial"] != "als" or "factorisations" in table.method:
            return _first_columns(table, width)
        return self._factorised(width, AlsSettings(**table.method["als"]), None)[0]

    def _weighed(self, form: Form) -> Tried:
        """Return the form with the best weight of the lists beside it."""
        settings = self._ranking_settings(form)
        narrow, lists = self._built(form, settings)
        named = self._named(form, self.race.some)
        weight, score = self.fitter.weighed(narrow, lists, form.list_weight, named, settings)
        return Tried(replace(form, list_weight=weight), score)

    def _score(self, form: Form, objective: Objective) -> float:
        """Evaluate a form beside the lists that the byte budget then allows."""
        settings = self._ranking_settings(form)
        narrow, lists = self._built(form, settings)
        return self.fitter.score(narrow, lists, form.list_weight, self._named(form, objective), settings)

    def _built(self, form: Form, settings: RankingConfig) -> tuple[Ranking, ItemLists]:
        builder = RankingBuilder(settings, self.byte_budget, self.fitter)
        narrow = builder.quantised(form.table.ranking)
        return narrow, self.fitter.lists(settings, builder.entries(narrow), refit=False)

    def _candidate(self, best: Tried) -> Candidate:
        """Weigh the final lists of a form, and evaluate it with them."""
        form = best.form
        settings = self._ranking_settings(form)
        builder = RankingBuilder(settings, self.byte_budget, self.fitter)
        built = builder.build(form.table.ranking, self._named(form, self.race.some))
        score = self.race.everyone(built.ranking, {"start": form.name, "chosen": True})
        config = form.table.config(self.config, built.config)
        ahead = lead(best.score, best.rival_score) if best.rival else None
        return Candidate(config, score, self.build, lead=ahead, rival=best.rival)

    def _ranking_settings(self, form: Form) -> RankingConfig:
        update = {"bits": form.bits, "lists": None, "fit_lists": False, "list_weight": form.list_weight}
        return self.config.ranking.model_copy(update=update)

    def _sizes(self, most: int) -> list[tuple[int, int]]:
        return list(sizes(self.byte_budget, self.dataset.train, most))

    def _named(self, form: Form, objective: Objective) -> Objective:
        """Return the objective with the form's name in its reports."""
        return lambda ranking, facts: objective(ranking, {"start": form.name, **facts})

    @property
    def _settings(self) -> AlsSettings:
        settings = getattr(self.config.method, "als", None)
        return settings if isinstance(settings, AlsSettings) else AlsSettings()

    @property
    def _codes_width(self) -> int:
        """Return the columns of the factorisation that the codes started from."""
        return int(self.config.method.model_dump()["dim"])

    @property
    def _widest(self) -> int:
        """Return the columns of the widest table that fits; 0 where none does."""
        return max((width for width, _ in self._sizes(_MOST_SINGULAR)), default=0)


def _first_columns(table: Table, width: int) -> Table:
    ranking = table.ranking
    items = np.ascontiguousarray(ranking.items[:, :width])
    return replace(table, ranking=replace(ranking, users=ranking.users[:, :width], items=items))


def _are_few(train: Interactions) -> bool:
    return train.num_pairs < _WIDE_PAIRS


def sizes(byte_budget: int, train: Interactions, most: int = _MOST_SINGULAR) -> Iterator[tuple[int, int]]:
    """Return widths up to `most` and bits of tables that leave a fifth of the bytes to the lists; less of few pairs.

    For each number of bits there is the widest that fits, so that what is tried for a file is hardly wider than what is
    tried for a larger one; in small data also those that take two fifths of the budget.
    """
    most_share = _MOST_TABLE_SHARE_OF_FEW if _are_few(train) else _MOST_TABLE_SHARE
    policy, most = SelectionPolicy.of(train), min(most, train.num_items // _LEAST_ITEMS_PER_COLUMN)
    for bits in (*policy.table_bits, *policy.full_width_bits):
        shares = {
            width: packed_table_bytes(train.num_items, width, bits) / max(byte_budget, 1)
            for width in _TABLE_WIDTHS
            if width <= most
        }
        fitting = [width for width, share in shares.items() if share <= most_share]
        for width in fitting:
            is_narrow = bits in policy.table_bits and policy.tries_narrow and shares[width] >= _LEAST_TABLE_SHARE
            is_widest = width == fitting[-1] and (bits in policy.table_bits or width == max(shares))
            if is_narrow or is_widest:
                yield width, bits
