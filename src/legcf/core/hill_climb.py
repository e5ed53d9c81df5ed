# SPDX-License-Identifier: Apache-2.0
"""A positive setting chosen by trying: as simple as searching gets, and the same every time."""

from collections.abc import Callable


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
    tried: dict[float, float] = {}

    def known(value: float) -> float:
        if value not in tried:
            tried[value] = score(value)
        return tried[value]

    best = start
    for step in steps:
        for factor in (step, 1 / step):
            while least <= best * factor <= most and known(best * factor) > known(best):
                best *= factor
    return best
