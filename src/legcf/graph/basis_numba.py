# SPDX-License-Identifier: Apache-2.0
"""Multiply by rows of a sparse matrix and by their transpose, compiled.

Sums that several rows add to are split by column, so that threads never write to one number and keep their order.
"""

from legcf.core.jit import get_num_threads, njit, prange

_COLUMNS_A_TASK = 32  # at least


def columns_a_task(width: int) -> int:
    """Return how many of so many columns a thread adds to at a time."""
    return max(_COLUMNS_A_TASK, -(-width // get_num_threads()))


@njit(cache=True, parallel=True, fastmath=True)
def take_rows(indptr, indices, data, rows, dense, result):  # type: ignore[no-untyped-def]
    """Multiply some rows of a sparse matrix by a dense one."""
    for position in prange(len(rows)):
        out = result[position]
        out[:] = 0
        for entry in range(indptr[rows[position]], indptr[rows[position] + 1]):
            weight, source = data[entry], dense[indices[entry]]
            for column in range(dense.shape[1]):
                out[column] += weight * source[column]


@njit(cache=True, parallel=True, fastmath=True)
def give_rows(indptr, indices, data, rows, gradient, result, wide):  # type: ignore[no-untyped-def]
    """Add to `result` the product of these rows, transposed, with a gradient, in tasks of `wide` columns."""
    width = gradient.shape[1]
    for task in prange(-(-width // wide)):
        first, last = task * wide, min((task + 1) * wide, width)
        for position in range(len(rows)):
            incoming = gradient[position, first:last]
            for entry in range(indptr[rows[position]], indptr[rows[position] + 1]):
                weight, target = data[entry], result[indices[entry], first:last]
                for column in range(last - first):
                    target[column] += weight * incoming[column]


@njit(cache=True, parallel=True, fastmath=True)
def add_rows(rows, values, sums, wide):  # type: ignore[no-untyped-def]
    """Add values to the rows that they are of, in tasks of `wide` columns."""
    width = sums.shape[1]
    for task in prange(-(-width // wide)):
        first, last = task * wide, min((task + 1) * wide, width)
        for row in range(len(rows)):
            total, value = sums[rows[row], first:last], values[row, first:last]
            for k in range(last - first):
                total[k] += value[k]
