# SPDX-License-Identifier: Apache-2.0
"""Choose how much it counts that a user has an item already, where users take items again."""

from collections.abc import Callable

from legcf.core.hill_climb import climb
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate, sample_eval_users
from legcf.ranking.ranking import Ranking

_EVAL_USERS = 5000  # not measured
_FIRST, _LEAST, _MOST = 1.0, 2.0**-8, 2.0**12  # by the last, what a user has comes first


def choose_repeat_weight(build: Callable[[float], Ranking], truth: Interactions, seed: int) -> float:
    """Return the weight by which held-out pairs, of items that a user has or has not, are found best."""
    users = sample_eval_users(truth, _EVAL_USERS, seed)

    def score(weight: float) -> float:
        return evaluate(build(weight), truth, (20,), users, ("ndcg",))["ndcg@20"]

    weight = climb(score, _FIRST, _LEAST, _MOST)
    return 0.0 if score(0.0) > score(weight) else weight
