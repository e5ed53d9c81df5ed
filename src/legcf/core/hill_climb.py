# SPDX-License-Identifier: Apache-2.0
"""Search for the best positive setting by trying: as simple as searching gets, and the same every time."""

from collections.abc import Callable
from functools import cache


def climb(
    score: Callable[[float], float],
    start: float,
    least: float = 0.0,
    most: float = float("inf"),
    steps: tuple[float, ...] = (2.0,),
) -> float:
    """Double or halve from `start` while the score gains; no value is tried twice, none beyond the bounds.

    Further `steps`, each smaller than the one before, go on from the best.
    """
    score = cache(score)
    best = start
    for step in steps:
        for factor in (step, 1 / step):
            while least <= best * factor <= most and score(best * factor) > score(best):
                best *= factor
    return best
