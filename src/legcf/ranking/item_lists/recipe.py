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

from legcf.core.arrays import Positions
from legcf.core.config import RankingConfig
from legcf.core.hill_climb import climb
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import Solved, find_candidates, solve, strongest
from legcf.ranking.ranking import Ranking, product_spread
from legcf.ranking.selection_policy import MIN_IMPROVEMENT, SelectionPolicy

Objective = Callable[[Ranking, dict[str, Any]], float]
"""Returns how good a ranking is; the facts are what is reported of the trial."""

_RIDGES = (0.5, 1.0, 2.0, 4.0, 8.0)  # best between 0.5 and 2 on four data sets (docs/study.md, section 11)
_MOST_RIDGE = 128.0  # where the search ends; not measured
_USER_POWERS = (0.0,)  # beside the one that is configured, ½: 1 only seemed better while codes were not trained yet
_POWERS = (0.0, 0.25, 0.5)  # 0 or ¼ were best (docs/study.md, section 11)
_SAMPLE = 500  # users whose scores tell how far those of lists spread
_LEAST_WEIGHT, _MOST_WEIGHT = 2.0**-6, 2.0**6


class ListFitter:
    """Solve the lists of one set of training pairs, and fit them to rankings.

    Training and updates make lists by this one recipe: candidates, their regressions, the entries that explain most.
    """

    def __init__(self, train: Interactions) -> None:
        self.train = train
        self._by_item = train.transposed()
        self._solved: dict[tuple[int, float, tuple[float, ...]], Solved] = {}
        picked = np.linspace(0, train.num_users - 1, min(_SAMPLE, train.num_users)).astype(np.int64)
        self._sample = train.of_users(np.unique(picked))
        # Both are asked for once per weight that is tried, of the same lists and the same vectors.
        self._list_spread = lru_cache(maxsize=1)(self._spread_of)
        self._product_spread = lru_cache(maxsize=1)(lambda ranking: product_spread(ranking.users, ranking.items))
        self._policy = SelectionPolicy.for_catalogue(train.num_items)

    def settings(self, ranking: Ranking, config: RankingConfig, objective: Objective) -> RankingConfig:
        """Return the best ridge and powers, found one after the other, each with its best weight.

        A setting stays as configured unless another is better by `MIN_IMPROVEMENT`.
        """
        best = config
        best_score = -np.inf

        def attempt(trial: RankingConfig, lists: ItemLists) -> None:
            nonlocal best, best_score
            weight, score = self.weighed(ranking, lists, trial.list_weight, objective, trial)
            if score > MIN_IMPROVEMENT * best_score:
                best, best_score = trial.model_copy(update={"list_weight": weight}), score

        ridges = (config.list_ridge, *(ridge for ridge in _RIDGES if ridge != config.list_ridge))
        solved = self._solve(self._policy.trial_candidates, config.list_user_power, ridges)
        for index, ridge in enumerate(ridges):
            attempt(best.model_copy(update={"list_ridge": ridge}), solved.lists(index, config.list_power))
        largest = max(ridges)
        while best.list_ridge == largest < _MOST_RIDGE:  # where pairs are few, what is solved may need to be held back
            largest *= 2
            lists = self._solve(self._policy.trial_candidates, config.list_user_power, (largest,)).lists(
                0, config.list_power
            )
            attempt(best.model_copy(update={"list_ridge": largest}), lists)
        for power in _USER_POWERS:
            lists = self._solve(self._policy.trial_candidates, power, (best.list_ridge,)).lists(0, config.list_power)
            attempt(best.model_copy(update={"list_user_power": power}), lists)
        lists = self._solve(self._policy.trial_candidates, best.list_user_power, (best.list_ridge,)).lists()
        for power in _POWERS:
            if power != best.list_power:
                attempt(best.model_copy(update={"list_power": power}), replace(lists, user_power=power))
        return best

    def lists(self, config: RankingConfig, entries: int, refit: bool = True) -> ItemLists:
        """Return lists as configured, of the `entries` that explain most."""
        count = config.list_candidates or self._policy.list_candidates
        if config.list_candidates is None and entries >= count * self.train.num_items:
            count *= 2  # the budget allows more entries than there are candidates
        solved = self._solve(count, config.list_user_power, (config.list_ridge,))
        kept = self._strongest(solved, config, entries, refit)
        return kept.lists(0, config.list_power).rounded(config.list_bits)

    def lists_for(self, items: Positions, config: RankingConfig, entries: int) -> ItemLists:
        """Return what recommends these items, in lists of `entries` in all, with weights that are not rounded yet."""
        count = config.list_candidates or self._policy.update_candidates
        candidates = find_candidates(self.train, count, self._by_item, items)
        solved = solve(self.train, candidates, (config.list_ridge,), config.list_user_power, self._by_item)
        return self._strongest(solved, config, entries).lists(0, config.list_power)

    def _strongest(self, solved: Solved, config: RankingConfig, entries: int, refit: bool = True) -> Solved:
        """Keep the `entries` that explain most.

        `refit` solves their weights once more without the others, where the number of candidates is not configured.
        """
        if entries >= solved.candidates.num_pairs:
            return solved
        kept = strongest(solved.candidates, solved.gains[0], entries)
        if refit and config.list_candidates is None:
            return solve(self.train, kept, (config.list_ridge,), config.list_user_power, self._by_item)
        marked = np.isin(solved.candidates.keys(), kept.keys(), assume_unique=True)
        return Solved(kept, solved.weights[:, marked], solved.gains[:, marked])

    def weighed(
        self,
        ranking: Ranking,
        lists: ItemLists,
        start: float,
        objective: Objective,
        reported: RankingConfig,
        steps: tuple[float, ...] = (2.0,),
    ) -> tuple[float, float]:
        """Return the weight with the best score, and that score."""
        scores: dict[float, float] = {}

        def score(weight: float) -> float:
            scores[weight] = self.score(ranking, lists, weight, objective, reported)
            return scores[weight]

        best = climb(score, start, _LEAST_WEIGHT, _MOST_WEIGHT, steps)
        return best, scores[best]

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

    def _spread_of(self, lists: ItemLists) -> float:
        scores = np.zeros((self._sample.num_users, self.train.num_items), dtype=np.float32)
        lists.add_for(scores, self._sample)
        return float(scores.std())

    def _solve(self, count: int, user_power: float, ridges: tuple[float, ...]) -> Solved:
        key = (count, user_power, ridges)
        if key not in self._solved:
            candidates = find_candidates(self.train, count, self._by_item)
            self._solved[key] = solve(self.train, candidates, ridges, user_power, self._by_item)
        return self._solved[key]
