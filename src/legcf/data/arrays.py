"""Small array helpers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sorted_unique(values: NDArray[Any]) -> NDArray[Any]:
    """Like `np.unique`, whose hash table (numpy 2.3 and later) is many times slower on keys of pairs than a sort."""
    ordered = np.sort(values)
    keep = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]
