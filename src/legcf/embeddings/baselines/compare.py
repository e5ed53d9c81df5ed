# SPDX-License-Identifier: Apache-2.0
"""Say how far a model is above the simplest rankings of the same data: what most have, and what is like one's own."""

from dataclasses import replace
from functools import partial

import numpy as np

from legcf.data.interactions import Dataset
from legcf.embeddings.baselines.item_knn import chosen_ranking
from legcf.evaluation.evaluate import evaluate
from legcf.evaluation.weights import choose_repeat_weight
from legcf.ranking.item_lists.repeats import with_repeats

METRIC = "ndcg@20"
# Most scores of users against items, and most steps from items over their users to the items of those: about two
# seconds on two cores (Gowalla, six times as large, takes eleven).
_MOST_SCORES = _MOST_STEPS = 2e8


def baselines(dataset: Dataset, anyway: bool = False) -> dict[str, float]:
    """Return NDCG@20 of popularity and item-knn on test pairs, item-knn with the shrinkage that validation chooses.

    Return nothing where it would take long, unless asked for `anyway`.
    """
    train, truth = dataset.train, dataset.test
    able = int((truth.user_degrees > 0).sum())
    steps = float(np.square(train.user_degrees.astype(np.float64)).sum())
    if not anyway and (able * train.num_items > _MOST_SCORES or steps > _MOST_STEPS):
        return {}
    near = replace(chosen_ranking(dataset), dislikes=dataset.dislikes, repeats=dataset.repeats)
    popular = replace(near, lists=None)
    if dataset.repeats:
        weigh = partial(with_repeats, near, list_power=0.0)
        near = weigh(choose_repeat_weight(weigh, dataset.validation, 0) if dataset.validation.num_pairs else 1.0)
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
