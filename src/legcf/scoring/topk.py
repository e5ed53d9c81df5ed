# SPDX-License-Identifier: Apache-2.0
"""The highest of many scores. Numpy only."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.modelfile.attributes import ItemMask

_GROUPS = 512  # at least, and some for each place: then few of the highest scores share a group
_GROUPS_PER_PLACE = 8
_NONE = np.zeros(0, dtype=np.int32)


def best(
    scores: FloatArray, k: int, left_out: Positions, inside: ItemMask | None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and scores of the k highest, best first, lower position first among equals. `scores` is overwritten.

    Where `inside` leaves some out, only the others are looked at.
    """
    scores[left_out] = -np.inf
    if inside is not None:
        few = np.flatnonzero(inside)
        places, values = best(scores[few], k, _NONE, None)
        return few[places], values
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    candidates = _candidates(scores, k)
    found = scores[candidates]
    order = np.argsort(-found, kind="stable")[:k]
    order = order[np.isfinite(found[order])]
    return candidates[order], found[order]


def _candidates(scores: FloatArray, k: int) -> NDArray[np.int64]:
    """Positions of everything that reaches some score which k or a few more are known to reach, in ascending order.

    Equals at the border are all among them, so that they are told apart by position, not by chance. Scores stand in a
    table, and k columns reach the k-th highest of its columns' maxima: finding that, and looking at those columns
    alone, is many times faster than a partition of all scores.
    """
    groups = max(_GROUPS, _GROUPS_PER_PLACE * k)
    deep = len(scores) // groups
    if deep < 2:
        return np.flatnonzero(scores >= _highest(scores, k))
    inside = deep * groups
    table = scores[:inside].reshape(deep, groups)
    maxima = table.max(axis=0)
    bar = _highest(maxima, k)
    columns = np.flatnonzero(maxima >= bar)
    of_columns = (np.arange(0, inside, groups)[:, None] + columns).ravel()
    places: NDArray[np.int64] = np.concatenate([of_columns, np.arange(inside, len(scores))])
    reaching: NDArray[np.int64] = places[scores[places] >= bar]
    return reaching


def _highest(values: FloatArray, k: int) -> np.float32:
    """The k-th highest."""
    bar: np.float32 = np.partition(values, len(values) - k)[len(values) - k]
    return bar
