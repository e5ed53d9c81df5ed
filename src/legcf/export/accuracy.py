# SPDX-License-Identifier: Apache-2.0
"""Measure what a file keeps of a model's accuracy."""

from collections.abc import Mapping

from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.ranking import Ranking

HEADLINE = ("recall@20", "ndcg@20")
Compared = dict[str, dict[str, dict[str, float]]]
"""Part of the data, metric, and its values `before` and `after`."""


def headline(ranking: Ranking, truth: Interactions) -> dict[str, float]:
    """Return recall and NDCG at 20."""
    metrics = evaluate(ranking, truth, (20,), metrics=("recall", "ndcg"))
    return {name: metrics[name] for name in HEADLINE}


def compared(
    dataset: Dataset, before: Ranking, after: Ranking, measured: Mapping[str, Mapping[str, float]] | None = None
) -> Compared:
    """Return both rankings' metrics on validation and test; those that are `measured` are not computed again."""
    result: Compared = {}
    for part, truth in (("validation", dataset.validation), ("test", dataset.test)):
        if truth.num_pairs:
            old, new = (measured or {}).get(part) or headline(before, truth), headline(after, truth)
            result[part] = {name: {"before": old[name], "after": new[name]} for name in HEADLINE}
    return result
