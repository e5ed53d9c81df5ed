# SPDX-License-Identifier: Apache-2.0
"""Count how popular items are: what a stranger is shown, how far likeness is trusted, what scores gain. Numpy only."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.ranking.precision import rounded
from legcf.ranking.ranking import Ranking, product_spread

_LARGEST = 3e4  # that is added to a score: half of what float16 holds
_SHRINK = 5.0  # users; no measurement recorded


def at_least_one(popularity: NDArray[np.integer]) -> FloatArray:
    """Return numbers of users to divide by: nobody counts as one."""
    counts: FloatArray = np.maximum(popularity, 1).astype(np.float32)
    return counts


def trust(popularity: NDArray[np.integer]) -> FloatArray:
    """Return n / (n + 5) for an item of n users.

    Where a handful of people decide, vectors point somewhere by chance, and some of thousands of rare items always
    point the right way.
    """
    counts = at_least_one(popularity)
    return counts / (counts + np.float32(_SHRINK))


def with_popularity(ranking: Ranking, weight: float) -> Ranking:
    """Add log(1 + n) to the scores of an item of n users, so that it spreads `weight` times as far as inner products.

    It is rounded as a file keeps it, to two bytes an item.
    """
    logarithms = np.log1p(ranking.popularity.astype(np.float64))
    spread = float(logarithms.std())
    if not weight or not spread:
        return ranking
    centred = (logarithms - logarithms.mean()) / spread
    scale = weight * (product_spread(ranking.users, ranking.items) or 1.0)
    added = rounded(min(scale, _LARGEST / float(np.abs(centred).max())) * centred, "float16")
    return replace(ranking, bias=added if ranking.bias is None else ranking.bias + added)
