"""The highest of many scores. Numpy only."""

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import FloatArray, Positions
from legcf.serving.attributes import ItemMask

_GROUPS = 1024  # at least, and some for each place: then hardly two of the highest scores share a group
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
    # everything that reaches a score which k are known to reach, so that equals at the border are told apart by
    # position, not by chance
    candidates = np.flatnonzero(scores >= _reached_by(scores, k))
    found = scores[candidates]
    order = np.argsort(-found, kind="stable")[:k]
    order = order[np.isfinite(found[order])]
    return candidates[order], found[order]


def _reached_by(scores: FloatArray, k: int) -> np.float32:
    """A score that at least k reach, and few more.

    The k-th highest of the maxima of groups will do, and is found several times faster than that of all scores.
    """
    groups = max(_GROUPS, _GROUPS_PER_PLACE * k)
    deep = len(scores) // groups
    maxima = scores[: deep * groups].reshape(deep, groups).max(axis=0) if deep > 1 else scores
    bar: np.float32 = np.partition(maxima, len(maxima) - k)[len(maxima) - k]
    return bar
