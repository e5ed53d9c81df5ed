# SPDX-License-Identifier: Apache-2.0
"""Ranking metrics. A new one is a function of (hits, relevant, k) giving a value per user, and one line in METRICS.

`hits` is a users × depth matrix of which ranked places are right, `relevant` the number of right items a user has.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from legcf.core.plugins import Registry

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]


def recall(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Share of the right items that are found."""
    return np.asarray(hits[:, :k].sum(axis=1) / relevant)


def precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Share of the list that is right."""
    return np.asarray(hits[:, :k].sum(axis=1) / k)


def hit_rate(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """1 where at least one place is right."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def ndcg(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Discounted gain over that of a perfect list of the same length."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gained = hits[:, :k] @ discount[: min(k, hits.shape[1])]
    ideal = np.cumsum(discount)[np.minimum(relevant, k) - 1]
    return np.asarray(gained / ideal)


def mrr(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """One over the place of the first right item, 0 where there is none."""
    first = hits[:, :k].argmax(axis=1)
    return np.where(hits[:, :k].any(axis=1), 1 / (first + 1), 0.0)


def average_precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Mean over the right items of the precision at their places; items not in the list count 0."""
    cut = hits[:, :k]
    at_place = cut.cumsum(axis=1) / np.arange(1, cut.shape[1] + 1)
    return np.asarray((at_place * cut).sum(axis=1) / relevant)


Metric = Callable[[Hits, Counts, int], PerUser]

METRICS: Registry[Metric] = Registry(
    "metric",
    "legcf.metrics",
    callable,
    {
        "recall": recall,
        "ndcg": ndcg,
        "precision": precision,
        "hitrate": hit_rate,
        "mrr": mrr,
        "map": average_precision,
    },
)
