# SPDX-License-Identifier: Apache-2.0
"""From final vectors to codes, as a file will give them back: a codebook in the basis of scores, and S by pursuit."""

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import balance, learn
from legcf.assignment.matching_pursuit import encode
from legcf.core.arrays import FloatArray
from legcf.ranking.precision import column_type, rounded
from legcf.ranking.tables.embedding_table import CodebookTable


def code_sides(
    users: FloatArray, items: FloatArray, c: int, t: int, dtype: str, rng: np.random.Generator, quiet: bool = True
) -> tuple[CodebookTable, CodebookTable]:
    """Code users and items over one codebook.

    The codebook is rounded to `dtype` before the last pursuit, so that the weights make up for its rounding.
    """
    user_rows, item_rows, metric = balance(users, items)
    rows = np.concatenate([user_rows, item_rows]).astype(np.float32)
    book, _ = learn(rows, c, t, rng, quiet=quiet)
    stored = rounded(book * metric, dtype)
    book = stored / metric
    columns, weights = encode(rows, book, t)
    narrow: NDArray[np.unsignedinteger] = columns.astype(column_type(c))
    weights = rounded(weights, dtype)
    split = len(users)
    coded_users = CodebookTable(narrow[:split], weights[:split], stored)
    return coded_users, CodebookTable(narrow[split:], weights[split:], stored)
