# SPDX-License-Identifier: Apache-2.0
"""Choose what counts beside vectors and lists on validation: popularity, items a user has, how recent they are."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import Positions
from legcf.core.hill_climb import climb
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import eval_users, evaluate, evaluate_per_user, sample_eval_users
from legcf.ranking.popularity import with_popularity
from legcf.ranking.ranking import Ranking
from legcf.ranking.recency import recent

_EVAL_USERS, _EVAL_USERS_OF_REPEATS = 1000, 5000  # not measured
_FIRST_WEIGHT, _MOST_WEIGHT = 0.5, 1024.0  # by the last, popularity alone ranks
# Standard errors by which a weight must lead, and by which anything must be ahead of popularity alone. On LastFM no
# weight leads, and results stay as they are. Other numbers were not measured.
_ERRORS, _ERRORS_OVER_POPULARITY = 2.0, 1.0
_SURE = 5.0  # standard errors over popularity below which everyone is asked; not measured
_FIRST, _LEAST, _MOST = 1.0, 2.0**-8, 2.0**12  # weights of repeats; by the last, what a user has comes first
HALF_LIVES = (5.0, 20.0, 100.0)
"""Items after which an item counts half, as they are tried."""
_ERRORS_OF_HALF_LIVES = 1.0  # paired standard errors by which a half-life must lead


def choose_popularity_weight(ranking: Ranking, truth: Interactions, seed: int) -> float:
    """Return the weight by which held-out pairs are found best; 0 unless another leads beyond doubt.

    Weights are doubled while they gain. What is not ahead of popularity alone gives way to it: it is the simplest.
    """
    users = sample_eval_users(truth, _EVAL_USERS, seed)

    def scores(weight: float, users: Positions | None = users) -> NDArray[np.float64]:
        return _ndcg(with_popularity(ranking, weight), truth, users)

    plain = scores(0.0)
    best, best_weight, weight = plain, 0.0, _FIRST_WEIGHT
    while weight < _MOST_WEIGHT and (trial := scores(weight)).mean() > best.mean():
        best, best_weight, weight = trial, weight, 2 * weight
    if _lead(best, plain) <= _ERRORS:
        best, best_weight = plain, 0.0
    ahead = _lead(best, scores(_MOST_WEIGHT))
    if _ERRORS_OVER_POPULARITY < ahead < _SURE:
        everyone = eval_users(truth)
        ahead = _lead(scores(best_weight, everyone), scores(_MOST_WEIGHT, everyone))
    return best_weight if ahead > _ERRORS_OVER_POPULARITY else _MOST_WEIGHT


def choose_repeat_weight(build: Callable[[float], Ranking], truth: Interactions, seed: int) -> float:
    """Return the weight of what a user has by which held-out pairs, of such items or of others, are found best."""
    users = sample_eval_users(truth, _EVAL_USERS_OF_REPEATS, seed)

    def score(weight: float) -> float:
        return evaluate(build(weight), truth, (20,), users, ("ndcg",))["ndcg@20"]

    weight = climb(score, _FIRST, _LEAST, _MOST)
    return 0.0 if score(0.0) > score(weight) else weight


def choose_half_life(ranking: Ranking, order: Interactions, truth: Interactions, seed: int) -> float | None:
    """Return the half-life in items by which held-out pairs are found best; None unless it leads beyond doubt."""
    users = sample_eval_users(truth, _EVAL_USERS, seed)

    def scores(half_life: float | None) -> NDArray[np.float64]:
        histories = ranking.histories if half_life is None else recent(ranking.histories, order, half_life)
        return _ndcg(ranking.with_histories(histories), truth, users)

    trials = {half_life: scores(half_life) for half_life in HALF_LIVES}
    best = max(trials, key=lambda half_life: float(trials[half_life].mean()))
    return best if _lead(trials[best], scores(None)) > _ERRORS_OF_HALF_LIVES else None


def _ndcg(ranking: Ranking, truth: Interactions, users: Positions | None) -> NDArray[np.float64]:
    return evaluate_per_user(ranking, truth, (20,), users, ("ndcg",))[0]["ndcg@20"]


def _lead(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return by how many of its standard errors the mean of one is above that of the other, for the same users."""
    differences = one - other
    error = float(differences.std()) / np.sqrt(max(len(differences), 1))
    return float(differences.mean()) / error if error else 0.0
