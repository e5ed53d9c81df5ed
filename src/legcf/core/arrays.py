# SPDX-License-Identifier: Apache-2.0
"""Name the array types of the whole package, and add what numpy lacks."""

import zipfile
import zlib
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]
IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
Matrix = NDArray[np.generic]
"""Numbers of any type, as a file has them."""
NamedArrays = Mapping[str, NDArray[np.generic]]
Positions = NDArray[np.integer]
"""Positions of users or items in their id maps."""
Square = NDArray[np.float64]
"""A square matrix, to be solved with."""
NPY_ERRORS = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)
"""What `np.load` raises for damaged files: their headers are Python, and say how much memory to take; npz are zips."""

_GRAM_ROWS = 2048  # that are turned into float64 at a time


def sorted_unique(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted distinct values; `np.unique` (numpy 2.3 on) hashes, many times slower on keys of pairs."""
    ordered = np.sort(values)
    keep = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def gram(rows: FloatArray, others: FloatArray | None = None, exact: bool = True) -> Square:
    """Return rowsᵀ · others (rows themselves by default), summed in float64 without a copy of all rows.

    Without `exact`, the products of a block of rows are summed in float32, which is several times as fast.
    """
    others = rows if others is None else others
    total = np.zeros((rows.shape[1], others.shape[1]))
    for start in range(0, len(rows), _GRAM_ROWS):
        block = slice(start, start + _GRAM_ROWS)
        some: Square | FloatArray = rows[block].T.astype(np.float64) if exact else rows[block].T
        total += some @ others[block]
    return total


def inverse_power(values: NDArray[Any], power: float) -> NDArray[np.float64]:
    """Return values ** −power, and 0 where the value is 0."""
    result = np.zeros_like(values, dtype=np.float64)
    positive = values > 0
    result[positive] = values[positive] ** -power
    return result
