# SPDX-License-Identifier: Apache-2.0
"""Compare rankings user by user: the difference of two scores, and how sure it is.

Two rankings of the same users differ far less by luck than two means do, since most users are as easy or as hard for
both. So a difference is divided by the standard error of the differences of users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed


class Score(float):
    """Hold a score that is a mean over users, with what each user of this process adds to it."""

    per_user: NDArray[np.float64]

    def __new__(cls, value: float, per_user: NDArray[np.float64]) -> Score:
        """Make a score of this value."""
        score = super().__new__(cls, value)
        score.per_user = per_user
        return score


@dataclass(frozen=True)
class Lead:
    """Hold by how much one score exceeds another, and the standard error of that difference."""

    difference: float
    error: float

    def exceeds(self, errors: float = 1.0) -> bool:
        """Say whether the lead is more than this many standard errors."""
        return self.difference > errors * self.error


def is_surely_better(score: float, other: float) -> bool:
    """Say whether a score leads another by more than the error of that lead."""
    return lead(score, other).exceeds()


def lead(score: float, other: float) -> Lead:
    """Return the lead of a score over another; of scores without the same users, the error is taken to be nothing."""
    if not isinstance(score, Score) or not isinstance(other, Score):
        return Lead(score - other, 0.0)
    if len(score.per_user) != len(other.per_user):
        return Lead(score - other, 0.0)
    gaps = score.per_user - other.per_user
    count, total, squares = distributed.all_reduce_sum(np.array([len(gaps), gaps.sum(), np.square(gaps).sum()]))
    mean = total / max(count, 1)
    variance = max(squares / max(count, 1) - mean**2, 0.0)
    return Lead(score - other, float(np.sqrt(variance / max(count - 1, 1))))
