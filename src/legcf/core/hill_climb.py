# SPDX-License-Identifier: Apache-2.0
"""Search for the best positive setting by trying: as simple as searching gets, and the same every time."""

from collections.abc import Callable, Mapping
from functools import cache
from operator import gt


def climb(
    score: Callable[[float], float],
    start: float,
    least: float = 0.0,
    most: float = float("inf"),
    factor: float = 2.0,
    is_better: Callable[[float, float], bool] = gt,
) -> float:
    """Multiply or divide from `start` while the score is better; no value is tried twice, none beyond the bounds."""
    score = cache(score)
    best = start
    for step in (factor, 1 / factor):
        while least <= best * step <= most and is_better(score(best * step), score(best)):
            best *= step
    return best


def peak(scores: Mapping[float, float], best: float) -> float:
    """Return where a parabola through the best value and the half and the double of it is highest, in logarithms.

    Three scores know more than the best of them, so luck moves it less. Without a neighbour it is the best value.
    """
    half, double = scores.get(best / 2), scores.get(2 * best)
    if half is None or double is None or half == scores[best] == double:
        return best
    return float(best * 2 ** (0.5 * (half - double) / (half - 2 * scores[best] + double)))
