# SPDX-License-Identifier: Apache-2.0
"""Code final vectors as a file will give them back: a codebook in the basis of scores, and S by pursuit."""

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import balance, learn
from legcf.assignment.matching_pursuit import encode
from legcf.core.arrays import FloatArray
from legcf.export.compress.sizes import Sizes
from legcf.ranking.precision import column_type, rounded
from legcf.ranking.tables.embedding_table import CodebookTable


def code_sides(
    sides: tuple[FloatArray, FloatArray], sizes: Sizes, dtype: str, rng: np.random.Generator, quiet: bool = True
) -> tuple[CodebookTable, CodebookTable]:
    """Code users and items (`sides`) over one codebook.

    The codebook is rounded to `dtype` before the last pursuit, so that the weights make up for its rounding.
    """
    user_rows, item_rows, metric = balance(*sides)
    rows = np.concatenate([user_rows, item_rows]).astype(np.float32)
    book, _ = learn(rows, sizes.c, sizes.t, rng, quiet=quiet)
    stored = rounded(book * metric, dtype)
    book = stored / metric
    columns, weights = encode(rows, book, sizes.t)
    narrow: NDArray[np.unsignedinteger] = columns.astype(column_type(sizes.c))
    weights = rounded(weights, dtype)
    split = len(sides[0])
    coded_users = CodebookTable(narrow[:split], weights[:split], stored)
    return coded_users, CodebookTable(narrow[split:], weights[split:], stored)
