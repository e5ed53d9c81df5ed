# SPDX-License-Identifier: Apache-2.0
"""Find the highest of one user's scores. Numpy only."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray, Positions

_GROUPS = 512  # at least, and some for each rank: then few of the highest scores share a group
_GROUPS_PER_RANK = 8
_NONE = np.zeros(0, dtype=np.int32)

TopK = tuple[IntArray, FloatArray]
"""Item numbers and scores of several users, users × k: −1 and −inf where a user has fewer."""


def empty_top_k(num_users: int, k: int) -> TopK:
    """Return lists without items."""
    return np.full((num_users, k), -1, dtype=np.int32), np.full((num_users, k), -np.inf, dtype=np.float32)


def top_k(
    scores: FloatArray, k: int, left_out: Positions, inside: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return positions and scores of the k highest, best first, lower position first among equals.

    `scores` is overwritten. Where `inside` is not true, items are left out as well and not looked at.
    """
    scores[left_out] = -np.inf
    if inside is not None:
        few = np.flatnonzero(inside)
        positions, values = top_k(scores[few], k, _NONE)
        return few[positions], values
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    candidates = _candidates(scores, k)
    values = scores[candidates]
    order = np.argsort(-values, kind="stable")[:k]
    order = order[np.isfinite(values[order])]
    return candidates[order], values[order]


def _candidates(scores: FloatArray, k: int) -> NDArray[np.int64]:
    """Return positions of everything that reaches some score which k or a few more are known to reach, ascending.

    Equals at the border are all among them, so that they are ordered by position, not by chance. Scores stand in a
    table, and k columns reach the k-th highest of its columns' maxima: finding that, and looking at those columns
    alone, is many times faster than a partition of all scores.
    """
    groups = max(_GROUPS, _GROUPS_PER_RANK * k)
    deep = len(scores) // groups
    if deep < 2:
        return np.flatnonzero(scores >= _kth_highest(scores, k))
    inside = deep * groups
    table = scores[:inside].reshape(deep, groups)
    maxima = table.max(axis=0)
    bar = _kth_highest(maxima, k)
    columns = np.flatnonzero(maxima >= bar)
    of_columns = (np.arange(0, inside, groups)[:, None] + columns).ravel()
    positions: NDArray[np.int64] = np.concatenate([of_columns, np.arange(inside, len(scores))])
    return positions[scores[positions] >= bar]


def _kth_highest(values: FloatArray, k: int) -> np.float32:
    bar: np.float32 = np.partition(values, len(values) - k)[len(values) - k]
    return bar
