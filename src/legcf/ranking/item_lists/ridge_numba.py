# SPDX-License-Identifier: Apache-2.0
"""Run the loops of `ridge`, compiled: nearest items, small systems and their solutions."""

import numpy as np

from legcf.core.jit import njit, prange

_TOGETHER = 4  # rows or columns of a small system that meet each row of its factor while it is near
_STEPS_LIKE_ALL = 8  # to go back over a row step by step costs this much more than to clear it


@njit(cache=True, parallel=True)
def find_nearest(  # type: ignore[no-untyped-def]
    item_indptr,
    item_users,
    indptr,
    items,
    user_scale,
    item_scale,
    shrinkage,
    rows,
    nearest,
    likeness,
    first,
    last,
    chunks,
):
    """Walk to the users of an item and on to their items; a heap keeps the largest, which are sorted by item."""
    num_items, count = len(item_indptr) - 1, nearest.shape[1]
    for chunk in prange(chunks):
        reached = np.zeros(num_items, dtype=np.float32)
        reached_items = np.empty(num_items, dtype=np.int32)
        for row in range(first + chunk, last, chunks):
            target, values = rows[row], likeness[row]
            size = 0
            for user in item_users[item_indptr[target] : item_indptr[target + 1]]:
                share = user_scale[user]
                if share == 0:  # of someone with so many items that its weight rounds to nothing
                    continue
                for item in items[indptr[user] : indptr[user + 1]]:
                    if reached[item] == 0:
                        reached_items[size] = item
                        size += 1
                    reached[item] += share
            held = 0
            for number in range(size):
                item = reached_items[number]
                value = reached[item] * item_scale[item]
                value /= np.float32(1) + shrinkage * item_scale[item] * item_scale[target]
                reached[item] = 0
                if item == target:
                    continue
                if held < count:
                    slot = held
                    held += 1
                    while slot > 0 and values[(slot - 1) // 2] > value:
                        values[slot], nearest[row, slot] = values[(slot - 1) // 2], nearest[row, (slot - 1) // 2]
                        slot = (slot - 1) // 2
                elif value > values[0]:
                    slot = 0
                    while True:
                        child = 2 * slot + 1
                        if child + 1 < count and values[child + 1] < values[child]:
                            child += 1
                        if child >= count or values[child] >= value:
                            break
                        values[slot], nearest[row, slot] = values[child], nearest[row, child]
                        slot = child
                else:
                    continue
                values[slot], nearest[row, slot] = value, item
            order = np.argsort(nearest[row])
            nearest[row] = nearest[row][order]
            likeness[row] = values[order]


@njit(cache=True, parallel=True)
def read_off(  # type: ignore[no-untyped-def]
    item_indptr, item_users, item_roots, indptr, items, roots, user_weights, bounds, candidates, target_of, order,
    needed, firsts, targets, systems, chunks,
):  # fmt: skip
    """Walk to each row of G that is needed, and copy what the small systems take of it."""
    longest = systems.shape[1]
    for chunk in prange(chunks):
        row = np.zeros(len(item_indptr) - 1, dtype=np.float32)
        for number in range(chunk, len(needed), chunks):
            item, steps = needed[number], 0
            for spot in range(item_indptr[item], item_indptr[item + 1]):
                user = item_users[spot]
                steps += indptr[user + 1] - indptr[user]
                share = user_weights[user] * item_roots[spot] if len(item_roots) else user_weights[user]
                for at in range(indptr[user], indptr[user + 1]):
                    row[items[at]] += share * roots[at] if len(roots) else share
            for entry in order[firsts[number] : firsts[number + 1]]:
                target = target_of[entry]
                first, last = bounds[target], bounds[target + 1]
                line = systems[target, entry - first]
                for other in range(first, last):
                    line[other - first] = row[candidates[other]]
                line[longest] = row[targets[target]]
            if steps * _STEPS_LIKE_ALL > len(row):
                row[:] = 0
                continue
            for spot in range(item_indptr[item], item_indptr[item + 1]):
                user = item_users[spot]
                for at in range(indptr[user], indptr[user + 1]):
                    row[items[at]] = 0


@njit(cache=True, fastmath=True)
def _factorise(matrix, size):  # type: ignore[no-untyped-def]
    """Replace a matrix by its lower Cholesky factor: four rows at a time meet each row above them."""
    whole = size - size % _TOGETHER
    for first in range(0, whole, _TOGETHER):
        one, two, three, four = matrix[first], matrix[first + 1], matrix[first + 2], matrix[first + 3]
        for j in range(first):
            line = matrix[j]
            a = b = c = d = np.float32(0)
            for k in range(j):
                value = line[k]
                a += one[k] * value
                b += two[k] * value
                c += three[k] * value
                d += four[k] * value
            one[j] = (one[j] - a) / line[j]
            two[j] = (two[j] - b) / line[j]
            three[j] = (three[j] - c) / line[j]
            four[j] = (four[j] - d) / line[j]
        for i in range(first, first + _TOGETHER):
            _factorise_row(matrix, i, first)
    for i in range(whole, size):
        _factorise_row(matrix, i, 0)


@njit(cache=True, fastmath=True)
def _factorise_row(matrix, row, first):  # type: ignore[no-untyped-def]
    """Finish a row of the factor from one of its columns on."""
    line = matrix[row]
    for j in range(first, row):
        total = line[j]
        for k in range(j):
            total -= line[k] * matrix[j, k]
        line[j] = total / matrix[j, j]
    total = line[row]
    for k in range(row):
        total -= line[k] * line[k]
    line[row] = np.sqrt(max(total, np.float32(1e-12)))


@njit(cache=True, fastmath=True)
def _invert_diagonal(lower, size, inverse, diagonal):  # type: ignore[no-untyped-def]
    """Compute the diagonal of (L Lᵀ)⁻¹: rows of L⁻¹, each a sum of those above it, squared and summed.

    Four rows are added at a time, the first of them with the three zeros that stand behind its last number.
    """
    diagonal[:size] = 0
    for i in range(size):
        out, line = inverse[i], lower[i]
        out[: min(i + _TOGETHER, size)] = 0
        whole = i - i % _TOGETHER
        for k in range(0, whole, _TOGETHER):
            a, b, c, d = line[k], line[k + 1], line[k + 2], line[k + 3]
            one, two, three, four = inverse[k], inverse[k + 1], inverse[k + 2], inverse[k + 3]
            for j in range(k + _TOGETHER):
                out[j] += (a * one[j] + b * two[j]) + (c * three[j] + d * four[j])
        for k in range(whole, i):
            a, one = line[k], inverse[k]
            for j in range(k + 1):
                out[j] += a * one[j]
        scale = np.float32(1) / line[i]
        for j in range(i):
            out[j] *= -scale
        out[i] = scale
        for j in range(i + 1):
            diagonal[j] += out[j] * out[j]


@njit(cache=True, parallel=True, fastmath=True)
def solve_systems(  # type: ignore[no-untyped-def]
    item_indptr, item_users, amounts, first_of, candidates, user_weights, ridges, kept, weights, gains, num_users,
    whole, systems, targets, chunks, explains,
):  # fmt: skip
    """Solve the small system of each target for every ridge, and compute what each weight explains, if asked to.

    `kept` is the share of a history that dropout leaves.
    """
    rows = len(first_of) - 1
    largest = 1
    for row in range(rows):
        largest = max(largest, first_of[row + 1] - first_of[row])
    for chunk in prange(chunks):
        gram = np.empty((largest, largest), dtype=np.float32)
        lower = np.empty((largest, largest), dtype=np.float32)
        right = np.empty(largest, dtype=np.float32)
        solution = np.empty(largest, dtype=np.float32)
        inverse = np.empty((largest, largest), dtype=np.float32)
        diagonal = np.empty(largest, dtype=np.float32)
        position = np.empty(largest, dtype=np.int64)
        share_of = np.empty(largest, dtype=np.float32)
        is_weighed = len(amounts) > 0
        head = np.full(num_users, -1, dtype=np.int32)
        for number in range(chunk, len(targets), chunks):
            row = targets[number]
            first, last = first_of[row], first_of[row + 1]
            size = last - first
            if size == 0:
                continue
            dense = len(whole) > 0
            ready = dense or len(systems) > 0
            total = 0
            for index in range(first, last if not ready else first):
                item = candidates[index]
                total += item_indptr[item + 1] - item_indptr[item]
            # Lists, one for each user of any candidate, of the candidates that it has.
            following = np.empty(total, dtype=np.int32)
            which = np.empty(total, dtype=np.int32)
            seen = np.empty(total, dtype=np.int32)
            amount = np.empty(total if is_weighed else 0, dtype=np.float32)
            filled = num_seen = 0
            for index in range(size if not ready else 0):
                item = candidates[first + index]
                for spot in range(item_indptr[item], item_indptr[item + 1]):
                    user = item_users[spot]
                    if is_weighed:
                        amount[filled] = amounts[spot]
                    if head[user] < 0:
                        seen[num_seen] = user
                        num_seen += 1
                    following[filled], which[filled] = head[user], index
                    head[user] = filled
                    filled += 1
            for index in range(size):
                gram[index, : index + 1] = 0
                right[index] = 0
            if dense:
                for index in range(size):
                    line = whole[candidates[first + index]]
                    right[index] = line[row]
                    for other in range(index + 1):
                        gram[index, other] = line[candidates[first + other]]
            elif ready:
                for index in range(size):
                    line = systems[number, index]
                    right[index] = line[len(line) - 1]
                    gram[index, : index + 1] = line[: index + 1]
            for spot in range(item_indptr[row], item_indptr[row + 1] if not ready else item_indptr[row]):
                user = item_users[spot]
                share = user_weights[user] * amounts[spot] if is_weighed else user_weights[user]
                at = head[user]
                while at >= 0:
                    right[which[at]] += share * amount[at] if is_weighed else share
                    at = following[at]
            for number_seen in range(num_seen):
                user = seen[number_seen]
                share = user_weights[user]
                count = 0
                at = head[user]
                while at >= 0:  # from the last candidate to the first, so positions fall
                    position[count] = which[at]
                    if is_weighed:
                        share_of[count] = amount[at]
                    count += 1
                    at = following[at]
                head[user] = -1
                for a in range(count):
                    line = gram[position[a]]
                    if is_weighed:
                        for b in range(a, count):
                            line[position[b]] += share * share_of[a] * share_of[b]
                    else:
                        for b in range(a, count):
                            line[position[b]] += share
            for which_ridge in range(len(ridges)):
                for i in range(size):
                    for j in range(i + 1):
                        lower[i, j] = gram[i, j]
                    lower[i, i] = lower[i, i] / kept + ridges[which_ridge]
                _factorise(lower, size)
                for i in range(size):
                    value = right[i]
                    for k in range(i):
                        value -= lower[i, k] * solution[k]
                    solution[i] = value / lower[i, i]
                for i in range(size - 1, -1, -1):
                    solution[i] /= lower[i, i]
                    value = solution[i]
                    for k in range(i):
                        solution[k] -= lower[i, k] * value
                for i in range(size):
                    weights[which_ridge, first + i] = solution[i]
                if not explains:
                    continue
                _invert_diagonal(lower, size, inverse, diagonal)
                for i in range(size):
                    gains[which_ridge, first + i] = solution[i] * solution[i] / diagonal[i]
