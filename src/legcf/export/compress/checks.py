# SPDX-License-Identifier: Apache-2.0
"""Check a table before it is coded; every complaint is one sentence that says what to do."""

import numpy as np

from legcf.core.arrays import Matrix
from legcf.core.errors import UserError
from legcf.export.compress.sizes import GRAM_BYTES

_ROWS = 8192
_LARGEST = 1e9


def check_table(users: Matrix | None, items: Matrix, keep_zero_rows: bool) -> None:
    """Check that there are only real numbers, no row of zeros (unless kept), and one width on both sides."""
    for matrix, side in ((users, "user"), (items, "item")):
        if matrix is None:
            continue
        if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "fiu":
            shape = " × ".join(str(size) for size in matrix.shape)
            raise UserError(
                f"The {side} vectors must be a matrix of real numbers, not {matrix.dtype} of shape {shape}."
            )
        _check_rows(matrix, side, keep_zero_rows)
    if users is not None and users.shape[1] != items.shape[1]:
        raise UserError(
            f"User vectors have {users.shape[1]:,} columns and item vectors {items.shape[1]:,}: inner products need "
            "the same width, so check that both belong to one model."
        )


def _check_rows(matrix: Matrix, side: str, keep_zero_rows: bool) -> None:
    zeros, first_zero, largest = 0, -1, 0.0
    for start in range(0, len(matrix), _ROWS):
        with np.errstate(over="ignore"):
            block = np.asarray(matrix[start : start + _ROWS], dtype=np.float32)
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(bad):
            raise UserError(
                f"The {side} vectors hold NaN or infinite values (or some too large for float32), first in row "
                f"{start + bad[0]:,}: repair or remove such rows, then compress again."
            )
        largest = max(largest, float(np.abs(block).max()))
        empty = np.flatnonzero(~block.any(axis=1))
        if len(empty) and first_zero < 0:
            first_zero = start + int(empty[0])
        zeros += len(empty)
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        raise UserError(
            f"The {side} vectors reach {largest:.1e}, outside of what float32 products hold: multiply all of them by "
            f"{1 / largest:.0e} first; rankings do not change."
        )
    if zeros and not keep_zero_rows:
        raise UserError(
            f"{zeros:,} of the {len(matrix):,} {side} vectors are all zeros, the first in row {first_zero:,}: remove "
            "them, or give --keep-zero-rows (keep_zero_rows=True) to store them without any weight."
        )


def check_memory(c: int, memory_cap_mb: float) -> None:
    """Check that the c × c matrices fit the cap."""
    needed = GRAM_BYTES * c * c / 2**20
    if needed > memory_cap_mb:
        raise UserError(
            f"A codebook of c = {c:,} needs {needed:,.0f} MB for its Gram matrices, and --memory-mb is "
            f"{memory_cap_mb:,.0f}: raise it or choose a smaller c."
        )
