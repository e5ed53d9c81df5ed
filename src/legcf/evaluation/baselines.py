# SPDX-License-Identifier: Apache-2.0
"""Compare a model with the simplest rankings of the same data: popularity and item-knn."""

import numpy as np

from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.item_lists.ridge import nearest_lists
from legcf.ranking.ranking import Ranking

METRIC = "ndcg@20"
_NEIGHBOURS, _USER_POWER = 100, 1.0  # as the method item-knn has them
_MOST_SCORES = 2e9  # of users against items: some ten seconds on two cores
_MOST_STEPS = 2e9  # from items over their users to the items of those


def baselines(train: Interactions, truth: Interactions, anyway: bool = False) -> dict[str, float]:
    """Return NDCG@20 of popularity and item-knn; nothing where it would take long, unless `anyway`."""
    if not (anyway or _takes_seconds(train, truth)):
        return {}
    user_vectors, item_vectors = np.zeros((train.num_users, 1), np.float32), np.zeros((train.num_items, 1), np.float32)
    popular = Ranking(user_vectors, item_vectors, train)
    near = Ranking(user_vectors, item_vectors, train, term=nearest_lists(train, _NEIGHBOURS, _USER_POWER))
    return {
        name: evaluate(ranking, truth, (20,), metrics=("ndcg",))[METRIC]
        for name, ranking in (("popularity", popular), ("item-knn", near))
    }


def comparison(score: float, others: dict[str, float]) -> str:
    """Return a line such as "12 % above item-knn (0.1010) and 310 % above popularity (0.0276) in test ndcg@20"."""
    parts = [_compared(score, other, name) for name, other in sorted(others.items())]
    return f"{' and '.join(parts)} in test {METRIC}."


def _compared(score: float, other: float, name: str) -> str:
    if other == 0:
        return f"above {name} (0)" if score > 0 else f"no better than {name} (0)"
    share = score / other - 1
    return f"{abs(share):.0%} {'below' if share < 0 else 'above'} {name} ({other:.4f})".replace("%", " %", 1)


def _takes_seconds(train: Interactions, truth: Interactions) -> bool:
    evaluated = int((truth.user_degrees > 0).sum())
    steps = float(np.square(train.user_degrees.astype(np.float64)).sum())
    return evaluated * train.num_items <= _MOST_SCORES and steps <= _MOST_STEPS
