"""How popular items are, in a byte each: what a stranger is shown, and how far an item's neighbours are trusted.

Numpy only. Training, evaluation and serving all read the same coded counts, so that a run and the file made of it give
a stranger the same items in the same order.
"""

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import FloatArray

_SHRINK = 5.0


def popularity_bytes(counts: NDArray[np.integer]) -> NDArray[np.uint8]:
    """8 · log2(1 + number of users), rounded: within 5 % of the count."""
    coded: NDArray[np.uint8] = np.minimum(np.rint(8 * np.log2(1.0 + counts)), 255).astype(np.uint8)
    return coded


def popularity_counts(coded: NDArray[np.uint8]) -> FloatArray:
    """The counts that the bytes stand for, at least 1."""
    counts: FloatArray = np.maximum(2.0 ** (coded / 8.0) - 1.0, 1.0).astype(np.float32)
    return counts


def trust(counts: FloatArray) -> FloatArray:
    """n / (n + 5) for an item of n users.

    Where a handful of people decide, vectors point somewhere by chance, and some of thousands of rare items always
    point the right way.
    """
    share: FloatArray = counts / (counts + np.float32(_SHRINK))
    return share
