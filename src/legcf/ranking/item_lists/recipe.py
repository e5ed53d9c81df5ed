# SPDX-License-Identifier: Apache-2.0
"""Which item lists go with a ranking: ridge, powers and weight by whoever judges, as many entries as there is room.

Lists are solved without regard to the vectors beside them, so they are solved once, and everything about them can be
chosen apart from how the vectors are made.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from legcf.core.config import RankingConfig
from legcf.core.hill_climb import climb
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import Solved, find_candidates, solve, strongest
from legcf.ranking.ranking import Ranking, product_spread
from legcf.ranking.selection_policy import MIN_IMPROVEMENT, SelectionPolicy

Objective = Callable[[Ranking, dict[str, Any]], float]
"""How good a ranking is, and what is reported of the trial."""

_RIDGES = (0.5, 1.0, 2.0, 4.0, 8.0)
_MOST_RIDGE = 128.0
_USER_POWERS = (0.0,)  # beside the one that is configured, ½: 1 only seemed better while codes were not trained yet
_POWERS = (0.0, 0.25, 0.5)
_SAMPLE = 500  # users whose scores tell how far those of lists spread
_LEAST_WEIGHT, _MOST_WEIGHT = 2.0**-6, 2.0**6


class ListFitter:
    """Solves the lists of one set of training pairs, and fits them to rankings."""

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

    def settings(self, ranking: Ranking, config: RankingConfig, judge: Objective) -> RankingConfig:
        """Ridge and powers, one after the other, each with the weight that suits it; as configured unless another is
        clearly better."""
        best = config
        best_score = -np.inf

        def attempt(trial: RankingConfig, lists: ItemLists) -> None:
            nonlocal best, best_score
            weight, score = self.weighed(ranking, lists, trial.list_weight, judge, trial)
            if score > MIN_IMPROVEMENT * best_score:
                best, best_score = trial.model_copy(update={"list_weight": weight}), score

        ridges = (config.list_ridge, *(ridge for ridge in _RIDGES if ridge != config.list_ridge))
        solved = self._solve(self._policy.trial_candidates, config.list_user_power, ridges)
        for place, ridge in enumerate(ridges):
            attempt(best.model_copy(update={"list_ridge": ridge}), solved.lists(place, config.list_power))
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
        """As configured, the `entries` that explain most; `refit` solves their weights once more without the others."""
        ridges = (config.list_ridge,)
        count = config.list_candidates or self._policy.list_candidates
        if config.list_candidates is None and entries >= count * self.train.num_items:
            count *= 2  # there is room for more than all of them
        solved = self._solve(count, config.list_user_power, ridges)
        if entries < solved.candidates.num_pairs:
            kept = strongest(solved.candidates, solved.gains[0], entries)
            if refit and config.list_candidates is None:
                solved = solve(self.train, kept, ridges, config.list_user_power, self._by_item)
            else:
                marked = np.isin(solved.candidates.keys(), kept.keys(), assume_unique=True)
                solved = Solved(kept, solved.weights[:, marked], solved.gains[:, marked])
        return solved.lists(0, config.list_power).rounded(config.list_bits)

    def weighed(
        self,
        ranking: Ranking,
        lists: ItemLists,
        start: float,
        judge: Objective,
        reported: RankingConfig,
        steps: tuple[float, ...] = (2.0,),
    ) -> tuple[float, float]:
        """The weight that is judged best, and its score."""
        known: dict[float, float] = {}

        def score(weight: float) -> float:
            known[weight] = self.judged(ranking, lists, weight, judge, reported)
            return known[weight]

        best = climb(score, start, _LEAST_WEIGHT, _MOST_WEIGHT, steps)
        return best, known[best]

    def judged(
        self, ranking: Ranking, lists: ItemLists, weight: float, judge: Objective, reported: RankingConfig
    ) -> float:
        """How good the ranking is with lists of this weight."""
        facts = {
            "entries": round(lists.num_entries / max(self.train.num_items, 1), 1),
            "ridge": reported.list_ridge,
            "powers": [reported.list_user_power, reported.list_power],
            "weight": weight,
        }
        return judge(self.added(ranking, lists, weight), facts)

    def added(self, ranking: Ranking, lists: ItemLists, weight: float) -> Ranking:
        """The ranking with these lists, their scores spread `weight` times as far as the inner products of vectors."""
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
