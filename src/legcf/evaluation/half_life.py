# SPDX-License-Identifier: Apache-2.0
"""Choose how fast the items of a history count less, by validation pairs that are later than it."""

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate_per_user, sample_eval_users
from legcf.evaluation.popularity_weight import lead
from legcf.ranking.ranking import Ranking
from legcf.ranking.recency import recent

HALF_LIVES = (5.0, 20.0, 100.0)
"""Items after which an item counts half, as they are tried."""
_ERRORS = 1.0  # paired standard errors by which a half-life must lead
_EVAL_USERS = 1000  # not measured


def choose_half_life(ranking: Ranking, order: Interactions, truth: Interactions, seed: int) -> float | None:
    """Return the half-life in items by which held-out pairs are found best; None unless it leads beyond doubt."""
    users = sample_eval_users(truth, _EVAL_USERS, seed)

    def scores(half_life: float | None) -> NDArray[np.float64]:
        histories = ranking.histories if half_life is None else recent(ranking.histories, order, half_life)
        return evaluate_per_user(ranking.with_histories(histories), truth, (20,), users, ("ndcg",))[0]["ndcg@20"]

    trials = {half_life: scores(half_life) for half_life in HALF_LIVES}
    best = max(trials, key=lambda half_life: float(trials[half_life].mean()))
    return best if lead(trials[best], scores(None)) > _ERRORS else None
