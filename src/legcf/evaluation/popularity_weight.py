# SPDX-License-Identifier: Apache-2.0
"""Choose how much popularity counts beside vectors and lists, which say little where pairs are few."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import Positions
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import eval_users, evaluate_per_user, sample_eval_users
from legcf.ranking.popularity import with_popularity
from legcf.ranking.ranking import Ranking

_EVAL_USERS = 1000  # not measured
_FIRST_WEIGHT, _MOST_WEIGHT = 0.5, 1024.0  # by the last, popularity alone ranks
# Standard errors by which a weight must lead, and by which anything must be ahead of popularity alone. On LastFM no
# weight leads, and results stay as they are. Other numbers were not measured.
_ERRORS, _ERRORS_OVER_POPULARITY = 2.0, 1.0
_SURE = 5.0  # standard errors over popularity below which everyone is asked; not measured


def choose_popularity_weight(ranking: Ranking, truth: Interactions, seed: int) -> float:
    """Return the weight by which held-out pairs are found best; 0 unless another leads beyond doubt.

    Weights are doubled while they gain. What is not ahead of popularity alone gives way to it: it is the simplest.
    """
    users = sample_eval_users(truth, _EVAL_USERS, seed)

    def scores(weight: float, users: Positions | None = users) -> NDArray[np.float64]:
        weighted = with_popularity(ranking, weight)
        return evaluate_per_user(weighted, truth, (20,), users, ("ndcg",))[0]["ndcg@20"]

    plain = scores(0.0)
    best, best_weight, weight = plain, 0.0, _FIRST_WEIGHT
    while weight < _MOST_WEIGHT and (trial := scores(weight)).mean() > best.mean():
        best, best_weight, weight = trial, weight, 2 * weight
    if lead(best, plain) <= _ERRORS:
        best, best_weight = plain, 0.0
    ahead = lead(best, scores(_MOST_WEIGHT))
    if _ERRORS_OVER_POPULARITY < ahead < _SURE:
        everyone = eval_users(truth)
        ahead = lead(scores(best_weight, everyone), scores(_MOST_WEIGHT, everyone))
    return best_weight if ahead > _ERRORS_OVER_POPULARITY else _MOST_WEIGHT


def lead(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return by how many of its standard errors the mean of one is above that of the other, for the same users."""
    differences = one - other
    error = float(differences.std()) / np.sqrt(max(len(differences), 1))
    return float(differences.mean()) / error if error else 0.0
