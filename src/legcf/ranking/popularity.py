# SPDX-License-Identifier: Apache-2.0
"""Count how popular items are: what a stranger is shown, and how far the likeness of an item is trusted. Numpy only."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray

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
