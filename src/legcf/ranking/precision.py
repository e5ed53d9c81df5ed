# SPDX-License-Identifier: Apache-2.0
"""Round numbers as a file gives them back: what is validated and tested is what is served. Numpy only."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.ranking.ranking import Codes, Ranking
from legcf.ranking.tables.embedding_table import CodebookTable, EmbeddingTable, QuantisedTable
from legcf.ranking.tables.packing import dequantise_rows, quantise_rows

_LARGEST_HALF = 65504.0  # of float16


def as_stored(ranking: Ranking, bits: int | None) -> Ranking:
    """Return the ranking with its items in so many bits per value; without a number codes stay codes, in bytes.

    For users that are their histories: they follow from the rounded items. Compiled: needs numba.
    """
    if ranking.pooling is None:
        raise ValueError("users that have vectors of their own cannot follow rounded items")
    if bits is not None:
        rows: EmbeddingTable = QuantisedTable.of(ranking.items, bits)
    elif ranking.codes is not None:
        rows = keep_codes(ranking.codes, "int8")
    else:
        return ranking
    from legcf.ranking.tables.pooling_numba import pooled_users  # here: the rest of this module is for serving, too

    items = rows.vectors(slice(None))
    users = pooled_users(ranking.pooling, ranking.histories, items)
    return replace(ranking, users=users, items=items, rows=rows)


def keep_codes(codes: Codes, dtype: str) -> CodebookTable:
    """Round codes that are there already as the file will give them back."""
    narrow: NDArray[np.unsignedinteger] = codes.items.indices.astype(column_type(len(codes.codebook)))
    return CodebookTable(narrow, rounded(codes.items.weights, dtype), rounded(codes.codebook, dtype))


def column_type(c: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type that numbers c meta-embeddings, of those that numpy gathers by at speed."""
    return np.uint16 if c <= 2**16 else np.uint32


def rounded(matrix: NDArray[np.floating], dtype: str) -> FloatArray:
    """Return the matrix as a file of this dtype gives it back."""
    exact = np.asarray(matrix, dtype=np.float32)
    if dtype == "int8":
        return dequantise_rows(*quantise_rows(exact))
    if dtype == "float32":
        return exact
    return np.clip(exact, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16).astype(np.float32)
