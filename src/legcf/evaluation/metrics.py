# SPDX-License-Identifier: Apache-2.0
"""Compute ranking metrics. A new one is a function of (hits, relevant, k) → a value per user, and a line in METRICS.

`hits` is a users × depth matrix of which ranked items are held-out items, `relevant` a user's number of held-out items.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.plugins import Registry

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]


def recall(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return the share of the held-out items that the list has."""
    return np.asarray(hits[:, :k].sum(axis=1) / relevant)


def precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return the share of the list that are held-out items."""
    return np.asarray(hits[:, :k].sum(axis=1) / k)


def hit_rate(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return 1 where the list has at least one held-out item."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def ndcg(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return the discounted gain over that of a perfect list of the same length."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gained = hits[:, :k] @ discount[: min(k, hits.shape[1])]
    ideal = np.cumsum(discount)[np.minimum(relevant, k) - 1]
    return np.asarray(gained / ideal)


def mrr(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return one over the rank of the first held-out item, 0 where there is none."""
    first = hits[:, :k].argmax(axis=1)
    return np.where(hits[:, :k].any(axis=1), 1 / (first + 1), 0.0)


def average_precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return the mean over the held-out items of the precision at their ranks; items not in the list count 0."""
    cut = hits[:, :k]
    precisions = cut.cumsum(axis=1) / np.arange(1, cut.shape[1] + 1)
    return np.asarray((precisions * cut).sum(axis=1) / relevant)


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


def parse_metric(text: str) -> tuple[str, int]:
    """Return the name and the list length of a monitored metric such as ndcg@20."""
    name, _, k = text.partition("@")
    if name not in METRICS or not k.isdigit() or int(k) < 1:
        raise UserError(f"training.monitor = {text!r} is not a metric such as ndcg@20; names: {', '.join(METRICS)}.")
    return name, int(k)
