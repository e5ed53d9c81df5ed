# SPDX-License-Identifier: Apache-2.0
"""The array types that the whole package speaks of, and what numpy has no name for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
Matrix = NDArray[np.generic]
"""Of any kind of number, as a file has it."""
NamedArrays = Mapping[str, NDArray[np.generic]]
Positions = NDArray[np.integer]
"""Places of users or items in their id maps."""
Square = NDArray[np.float64]
"""A matrix of as many rows as columns, to be solved with."""


def sorted_unique(values: NDArray[Any]) -> NDArray[Any]:
    """Like `np.unique`, whose hash table (numpy 2.3 and later) is many times slower on keys of pairs than a sort."""
    ordered = np.sort(values)
    keep = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def inverse_power(values: NDArray[Any], power: float) -> NDArray[np.float64]:
    """values ** −power, and 0 where the value is 0."""
    result = np.zeros_like(values, dtype=np.float64)
    positive = values > 0
    result[positive] = values[positive] ** -power
    return result
