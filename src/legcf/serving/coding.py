"""From final vectors to codes, as a file will give them back: a codebook in the basis of scores, and S by pursuit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import FloatArray
from legcf.assignment.dictionary import balance, learn
from legcf.assignment.matching_pursuit import encode
from legcf.ranking.packing import dequantise_rows, quantise_rows
from legcf.ranking.ranking import Codes
from legcf.ranking.rows import CodedRows

_LARGEST_HALF = 65504.0


def code_sides(
    users: FloatArray, items: FloatArray, c: int, t: int, dtype: str, rng: np.random.Generator, quiet: bool = True
) -> tuple[CodedRows, CodedRows, FloatArray]:
    """Users and items coded over one codebook.

    The codebook is rounded to `dtype` before the last pursuit, so that the weights make up for its rounding. Returns
    also the codebook in the basis in which it was learnt, where distances mean what scores mean (for the map).
    """
    user_rows, item_rows, metric = balance(users, items)
    rows = np.concatenate([user_rows, item_rows]).astype(np.float32)
    book, _ = learn(rows, c, t, rng, quiet=quiet)
    stored = rounded(book * metric, dtype)
    book = stored / metric
    columns, weights = encode(rows, book, t)
    narrow: NDArray[np.unsignedinteger] = columns.astype(_column_type(c))
    weights = rounded(weights, dtype)
    split = len(users)
    coded_users = CodedRows(narrow[:split], weights[:split], stored)
    return coded_users, CodedRows(narrow[split:], weights[split:], stored), book


def keep_codes(codes: Codes, dtype: str) -> CodedRows:
    """Codes that are there already, rounded as the file will give them back."""
    narrow: NDArray[np.unsignedinteger] = codes.items.indices.astype(_column_type(len(codes.codebook)))
    return CodedRows(narrow, rounded(codes.items.weights, dtype), rounded(codes.codebook, dtype))


def _column_type(c: int) -> type[np.unsignedinteger[Any]]:
    return np.uint16 if c <= 2**16 else np.uint32


def rounded(matrix: NDArray[np.floating], dtype: str) -> FloatArray:
    """The matrix as a file of this dtype gives it back."""
    exact = np.asarray(matrix, dtype=np.float32)
    if dtype == "int8":
        return dequantise_rows(*quantise_rows(exact))
    if dtype == "float32":
        return exact
    halves: FloatArray = np.clip(exact, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16).astype(np.float32)
    return halves
