# SPDX-License-Identifier: Apache-2.0
"""Compute means with their spread over seeds, and paired tests over users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.01
"""Below this p-value a difference is called significant."""


@dataclass(frozen=True)
class Measured:
    """Hold a metric over seeds: sample deviation as the spread, None for a single seed."""

    mean: float
    spread: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), spread, len(values))


@dataclass(frozen=True)
class Paired:
    """Say how a second set of per-user values differs from a first."""

    difference: float
    low: float
    high: float
    """95 % confidence interval of the mean difference."""
    t_test: float
    wilcoxon: float
    users: int


def paired(first: NDArray[np.floating], second: NDArray[np.floating]) -> Paired:
    """Return the paired t-test and Wilcoxon signed-rank test of second − first over the same users."""
    from scipy import stats

    changes = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if len(changes) < 2 or not changes.any():
        mean = float(changes.mean()) if len(changes) else 0.0
        return Paired(mean, mean, mean, 1.0, 1.0, len(changes))
    t_test = stats.ttest_rel(second.astype(np.float64), first.astype(np.float64))
    interval = t_test.confidence_interval(0.95)
    rank_test = stats.wilcoxon(changes, method="approx")
    low, high = map(float, interval)
    return Paired(float(changes.mean()), low, high, float(t_test.pvalue), float(rank_test.pvalue), len(changes))
