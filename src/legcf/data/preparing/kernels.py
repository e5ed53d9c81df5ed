# SPDX-License-Identifier: Apache-2.0
"""Compile the loops of the data part: parse and write LightGCN text, sort pairs, select pairs of each user."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.jit import njit

# Up to this many smallest entries are found by insertion, more by sorting.
_FEW = 24

# What `parse_lines` may find wrong with a line.
FINE, NOT_A_NUMBER, NEGATIVE, TOO_LARGE, NUL_BYTE, NOT_TEXT = range(6)

_NEWLINE, _SPACE, _TAB, _RETURN, _MINUS, _ZERO, _NINE = 10, 32, 9, 13, 45, 48, 57


@njit(cache=True, nogil=True)
def parse_lines(buffer: NDArray[np.uint8]) -> Any:
    """Parse `user item item …` lines. Return users, line numbers and bounds of lines, items, problem, its line."""
    lines = 1
    for byte in buffer:
        lines += byte == _NEWLINE
    users = np.empty(lines, dtype=np.uint64)
    numbers = np.empty(lines, dtype=np.int64)
    bounds = np.zeros(lines + 1, dtype=np.int64)
    # A number takes at least two bytes; what is not filled of the array takes no memory.
    items = np.empty(len(buffer) // 2 + 1, dtype=np.uint64)

    largest_tenth = np.uint64(1844674407370955161)
    line, parsed, filled = 1, 0, 0
    first, in_number, value = True, False, np.uint64(0)
    for position in range(len(buffer) + 1):
        byte = buffer[position] if position < len(buffer) else np.uint8(_NEWLINE)
        if _ZERO <= byte <= _NINE:
            digit = np.uint64(byte - _ZERO)
            if value > largest_tenth or (value == largest_tenth and digit > np.uint64(5)):
                return users[:parsed], numbers[:parsed], bounds[: parsed + 1], items[:filled], TOO_LARGE, line
            value = value * np.uint64(10) + digit
            in_number = True
            continue
        if byte in (_NEWLINE, _SPACE, _TAB, _RETURN):
            if in_number and first:
                users[parsed], numbers[parsed], first = value, line, False
            elif in_number:
                items[filled] = value
                filled += 1
            in_number, value = False, np.uint64(0)
            if byte == _NEWLINE:
                if not first:
                    parsed += 1
                    bounds[parsed] = filled
                line += 1
                first = True
            continue
        problem = NOT_A_NUMBER
        if byte == _MINUS and not in_number:
            problem = NEGATIVE
        elif byte == 0:
            problem = NUL_BYTE
        elif byte >= 128:
            problem = NOT_TEXT
        return users[:parsed], numbers[:parsed], bounds[: parsed + 1], items[:filled], problem, line
    return users[:parsed], numbers[:parsed], bounds[: parsed + 1], items[:filled], FINE, line - 1


@njit(cache=True, nogil=True)
def counting_sort(keys: NDArray[np.int32], size: int) -> Any:
    """Return the target index of each entry in a stable sort by keys from 0 to size - 1, and where each key starts."""
    starts = np.zeros(size + 1, dtype=np.int64)
    for key in keys:
        starts[key + 1] += 1
    for key in range(size):
        starts[key + 1] += starts[key]
    fill = starts[:-1].copy()
    targets = np.empty(len(keys), dtype=np.int32)
    for position in range(len(keys)):
        key = keys[position]
        targets[position] = fill[key]
        fill[key] += 1
    return targets, starts


@njit(cache=True, nogil=True)
def scatter(column: NDArray[Any], targets: NDArray[np.int32]) -> NDArray[Any]:
    """Return the column with entry i moved to index `targets[i]`."""
    result = np.empty_like(column)
    for position in range(len(column)):
        result[targets[position]] = column[position]
    return result


@njit(cache=True, nogil=True)
def merge_rows(
    starts: NDArray[np.int64],
    items: NDArray[np.int32],
    times: NDArray[Any],
    testing: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> Any:
    """Keep one of each run of equal items in rows of sorted items, with the earliest of its times and all its weight.

    `times`, `testing` and `weights` may be empty. Return the new bounds of rows, a mask of those to keep, how many were
    merged and the offsets of the first repeated pair and of the first pair both in train and in test (-1: none).
    """
    keep = np.ones(len(items), dtype=np.bool_)
    indptr = np.zeros(len(starts), dtype=np.int64)
    merged, repeated, in_both = 0, -1, -1
    for row in range(len(starts) - 1):
        first = starts[row]
        for position in range(starts[row] + 1, starts[row + 1]):
            if items[position] != items[first]:
                first = position
                continue
            keep[position] = False
            merged += 1
            if len(testing) and testing[position] != testing[first]:
                in_both = position if in_both < 0 else in_both
            else:
                repeated = position if repeated < 0 else repeated
            if len(times):
                times[first] = min(times[first], times[position])
            if len(weights):
                weights[first] += weights[position]
        indptr[row + 1] = starts[row + 1] - merged
    return indptr, keep, merged, repeated, in_both


@njit(cache=True, nogil=True)
def smallest_of_each_row(indptr: NDArray[np.int64], keys: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark in every row the `counts[row]` entries with the smallest keys; the earlier entry wins a tie."""
    marked = np.zeros(len(keys), dtype=np.bool_)
    best = np.empty(_FEW, dtype=np.int64)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        count = min(counts[row], stop - start)
        if 0 < count <= _FEW:
            # Insertion into a short sorted list: most keys are refused by its last slot.
            held = 0
            for position in range(start, stop):
                if held == count and keys[position] >= keys[best[held - 1]]:
                    continue
                slot = held if held < count else held - 1
                while slot > 0 and keys[position] < keys[best[slot - 1]]:
                    best[slot] = best[slot - 1]
                    slot -= 1
                best[slot] = position
                held = min(held + 1, count)
            for slot in range(held):
                marked[best[slot]] = True
        elif count > 0:
            ordered = np.sort(keys[start:stop])
            last = ordered[count - 1]
            ties = count - np.searchsorted(ordered, last)
            for position in range(start, stop):
                if keys[position] < last or (keys[position] == last and ties > 0):
                    marked[position] = True
                    ties -= keys[position] == last
    return marked


@njit(cache=True, nogil=True)
def write_numbers(starts: NDArray[np.int64], firsts: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Write LightGCN text: for each row with items a line of `firsts[row]` and its items, in decimal, after spaces."""
    buffer = np.empty(21 * (len(firsts) + len(items)) + 1, dtype=np.uint8)
    digits = np.empty(20, dtype=np.uint8)
    filled = 0
    for row in range(len(firsts)):
        if starts[row] == starts[row + 1]:
            continue
        for position in range(starts[row] - 1, starts[row + 1]):
            value = firsts[row] if position < starts[row] else items[position]
            length = 0
            while length == 0 or value > 0:
                digits[length] = _ZERO + value % 10
                value //= 10
                length += 1
            if position >= starts[row]:
                buffer[filled] = _SPACE
                filled += 1
            for digit in range(length):
                buffer[filled + digit] = digits[length - 1 - digit]
            filled += length
        buffer[filled] = _NEWLINE
        filled += 1
    return buffer[:filled]
