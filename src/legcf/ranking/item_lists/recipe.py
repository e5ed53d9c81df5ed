# SPDX-License-Identifier: Apache-2.0
"""Make the item lists that go with a ranking: settings by an objective, as many entries as the byte budget allows.

Lists are solved without regard to the vectors beside them, so they are solved once, and everything about them can be
chosen apart from how the vectors are made.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import RankingConfig
from legcf.core.hill_climb import climb, peak
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import Solved, find_candidates, fits_whole_gram, gram_of, solve, strongest
from legcf.ranking.ranking import Ranking, product_spread
from legcf.ranking.selection_policy import SelectionPolicy, is_improvement

Objective = Callable[[Ranking, dict[str, Any]], float]
"""Returns how good a ranking is; the facts are what is reported of the trial."""

_RIDGE_STEP = 4.0  # between ridges that are tried; best between 0.5 and 2 on four data sets (docs/study.md, section 11)
_RIDGE_IMPROVEMENT = 1.03
"""A ratio of scores beside untrained codes: there 4 led 1 by 1.5 % on Gowalla, and fell behind after training."""
# Lists of less weight keep their ridge: Gowalla's have 0.25. Of 60 selections on small data one had another ridge, with
# a weight of 1. Other bounds were not measured.
_HEAVY_LISTS = 0.5
_MOST_RIDGE = 128.0  # where the search ends; not measured
_ENTRY_BYTES = 2  # about
# Candidates of an item by the entries that its share of a file could hold, by the pairs of an item, and the least. On
# LastFM at 400 kB 78 have 0.3020 / 0.1739 on validation, 50 0.2981 / 0.1720 (one seed). On Gowalla in 1.66 MB 64 have
# 0.1980 / 0.1445 on held-out fifths of training and validation pairs (three splits), 50 0.1973 / 0.1443, 100 0.1967 /
# 0.1439. Others were not measured.
_CANDIDATES_PER_ENTRY, _CANDIDATES_PER_PAIR, _LEAST_CANDIDATES = 2, 10, 64
_KEPT_LISTS = 2  # final ones: those beside codes and those beside a table
_SAMPLE, _SAMPLE_BLOCK = 500, 50  # users whose scores tell how far those of lists spread, and how many at a time
_LEAST_WEIGHT, _MOST_WEIGHT = 2.0**-6, 2.0**6
_LIST_SETTINGS = ("list_ridge", "list_dropout", "list_user_power", "list_power", "list_bits", "list_candidates")
"""All but their weight."""


def candidate_count(train: Interactions, byte_budget: int | None = None) -> int:
    """Return how many candidates an item has; fewer than usual where a file holds few entries, or pairs are few.

    The work grows with the cube of this number.
    """
    most, num_items = SelectionPolicy.of(train).list_candidates, max(train.num_items, 1)
    if byte_budget is None:
        return most
    by_entries = _CANDIDATES_PER_ENTRY * byte_budget // (_ENTRY_BYTES * num_items)
    by_pairs = _CANDIDATES_PER_PAIR * train.num_pairs // num_items
    return min(most, max(_LEAST_CANDIDATES, min(by_entries, by_pairs)))


class ListFitter:
    """Solve the lists of one set of training pairs, and fit them to rankings.

    Training and updates make lists by this one recipe: candidates, their regressions, the entries that explain most.
    """

    def __init__(self, train: Interactions, byte_budget: int | None = None) -> None:
        self.train = train
        self._policy = SelectionPolicy.of(train)
        # Where several are solved and items are few, the whole of G is made once.
        self._shares_gram = byte_budget is not None and fits_whole_gram(train.num_items)
        self._gram = lru_cache(maxsize=1)(self._gram_of)
        self._usual_count = candidate_count(train, byte_budget)
        self._by_item = train.transposed()
        self._candidates: dict[int, Interactions] = {}
        self._solved: dict[tuple[int, float, float, float], Solved] = {}
        self._made: dict[tuple[Any, ...], ItemLists] = {}
        picked = np.linspace(0, train.num_users - 1, min(_SAMPLE, train.num_users)).astype(np.int64)
        self._sample = train.of_users(np.unique(picked))
        # Both are asked for once per weight that is tried, of the same lists and the same vectors.
        self._list_spread = lru_cache(maxsize=1)(self._spread_of)
        self._product_spread = lru_cache(maxsize=1)(lambda ranking: product_spread(ranking.users, ranking.items))

    def settings(self, ranking: Ranking, config: RankingConfig, objective: Objective, entries: int) -> RankingConfig:
        """Return the best weight of lists with so many entries, and the best ridge beside that weight.

        The ridge stays as configured where lists weigh little, and unless four times as much is better by
        `_RIDGE_IMPROVEMENT`, and surely; then it grows while that is so. Smaller ridges and other powers were tried in
        every run behind docs/results.md: of 15, one kept another power, by luck.
        """

        def tried(ridge: float, weight: float) -> tuple[RankingConfig, float]:
            trial = config.model_copy(update={"list_ridge": ridge, "list_weight": weight})
            lists = self.lists(trial, entries, refit=False)
            return trial, self.score(ranking, lists, weight, objective, trial)

        lists = self.lists(config, entries, refit=False)
        weight, best_score = self.weighed(ranking, lists, config.list_weight, objective, config)
        best = config.model_copy(update={"list_weight": weight})
        if weight < _HEAVY_LISTS:
            return best
        while best.list_ridge * _RIDGE_STEP <= _MOST_RIDGE:  # where pairs are few, what is solved may need holding back
            trial, score = tried(best.list_ridge * _RIDGE_STEP, weight)
            if not is_improvement(score, best_score, _RIDGE_IMPROVEMENT):
                break
            best, best_score = trial, score
        return best

    def lists(self, config: RankingConfig, entries: int, refit: bool = True) -> ItemLists:
        """Return lists as configured, of the `entries` that explain most; those that were asked for last are kept."""
        key = (self._count(config, entries), entries, refit, *(getattr(config, name) for name in _LIST_SETTINGS))
        lists = self._made.pop(key, None)
        if lists is None:
            solved = self._solve(key[0], config)
            kept = self._strongest(solved, config, entries, refit)
            lists = kept.lists(0, config.list_power).rounded(config.list_bits)
        # Of those that are only tried the last one; final ones are asked for again, beside the codes and the table.
        tried = [other for other in self._made if not other[2]]
        final = [other for other in self._made if other[2]]
        for other in [*tried, *final[:-_KEPT_LISTS]]:
            del self._made[other]
        self._made[key] = lists
        return lists

    def forget(self) -> None:
        """Free what lists are made of but those at hand: once settings are selected, others are hardly asked for."""
        self._candidates, self._solved = {}, {}
        for kept in (self._gram, self._list_spread, self._product_spread):
            kept.cache_clear()

    def _count(self, config: RankingConfig, entries: int) -> int:
        """Return how many candidates an item has in lists of so many entries."""
        if config.list_candidates is not None:
            return config.list_candidates
        count = self._usual_count
        if count == self._policy.list_candidates and entries >= count * self.train.num_items:
            return 2 * count  # the budget allows more entries than there are candidates
        return count

    def lists_for(self, items: Positions, config: RankingConfig, entries: int) -> ItemLists:
        """Return what recommends these items, in lists of `entries` in all, with weights that are not rounded yet."""
        count = config.list_candidates or self._policy.update_candidates
        candidates = find_candidates(self.train, count, self._by_item, items)
        solved = self._solved_for(candidates, config)
        return self._strongest(solved, config, entries).lists(0, config.list_power)

    def _strongest(self, solved: Solved, config: RankingConfig, entries: int, refit: bool = True) -> Solved:
        """Keep the `entries` that explain most.

        `refit` solves their weights once more without the others, where the number of candidates is not configured.
        """
        if entries >= solved.candidates.num_pairs:
            return solved
        marked = strongest(solved.gains[0], entries)
        kept = solved.candidates.subset(marked)
        if refit and config.list_candidates is None:
            return self._solved_for(kept, config, self._gram(config.list_user_power), explains=False)
        return Solved(kept, solved.weights[:, marked], solved.gains[:, marked])

    def weighed(
        self,
        ranking: Ranking,
        lists: ItemLists,
        start: float,
        objective: Objective,
        reported: RankingConfig,
        between: bool = False,
    ) -> tuple[float, float]:
        """Return the weight with the best score, and that score; a weight `between` those that are tried, if asked."""
        scores: dict[float, float] = {}

        def score(weight: float) -> float:
            scores[weight] = self.score(ranking, lists, weight, objective, reported)
            return scores[weight]

        best = climb(score, start, _LEAST_WEIGHT, _MOST_WEIGHT)
        return (peak(scores, best) if between else best), scores[best]

    def score(
        self, ranking: Ranking, lists: ItemLists, weight: float, objective: Objective, reported: RankingConfig
    ) -> float:
        """Return how good the ranking is with lists of this weight."""
        facts = {
            "entries": round(lists.num_entries / max(self.train.num_items, 1), 1),
            "ridge": reported.list_ridge,
            "powers": [reported.list_user_power, reported.list_power],
            "weight": weight,
        }
        return objective(self.added(ranking, lists, weight), facts)

    def added(self, ranking: Ranking, lists: ItemLists, weight: float) -> Ranking:
        """Return the ranking with these lists, whose scores spread `weight` times as far as the inner products."""
        if not lists.num_entries:
            return ranking
        spread, own = self._list_spread(lists), self._product_spread(ranking)
        factor = weight * (own if own > 0 else 1.0) / spread if spread > 0 else 1.0
        return replace(ranking, lists=lists.scaled(factor))

    def _gram_of(self, user_power: float) -> FloatArray | None:
        return gram_of(self.train, user_power) if self._shares_gram else None

    def _spread_of(self, lists: ItemLists) -> float:
        """Return the standard deviation of what lists add to all scores of a sample of users, a few at a time."""
        total = squares = 0.0
        count = self._sample.num_users
        for start in range(0, count, _SAMPLE_BLOCK):
            some = self._sample.of_users(np.arange(start, min(start + _SAMPLE_BLOCK, count)))
            scores = np.zeros((some.num_users, self.train.num_items), dtype=np.float32)
            lists.add_for(scores, some)
            total += float(scores.sum(dtype=np.float64))
            squares += float(np.vdot(scores, scores))
        size = max(count * self.train.num_items, 1)
        return float(np.sqrt(max(squares / size - (total / size) ** 2, 0.0)))

    def _solve(self, count: int, config: RankingConfig) -> Solved:
        """Return what is solved as configured, and keep it."""
        key = count, config.list_user_power, config.list_ridge, config.list_dropout
        if key not in self._solved:
            if count not in self._candidates:
                self._candidates[count] = find_candidates(self.train, count, self._by_item)
            self._solved[key] = self._solved_for(self._candidates[count], config, self._gram(config.list_user_power))
        return self._solved[key]

    def _solved_for(
        self, candidates: Interactions, config: RankingConfig, gram: FloatArray | None = None, explains: bool = True
    ) -> Solved:
        ridges, power = (config.list_ridge,), config.list_user_power
        return solve(self.train, candidates, ridges, power, self._by_item, gram, explains, config.list_dropout)
