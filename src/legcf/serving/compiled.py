"""Top-k for many users at once, compiled: the same answers as numpy to the last bit, many times faster.

Users are taken 64 at a time. Their projections lie beside each other (c × 64, in the cache), so an item's code turns
into t products of one weight with 64 neighbouring numbers, which the compiler turns into vector instructions; and a
score has to beat the user's k-th best so far before anything else is looked at.
"""

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.jit import njit, prange
from legcf.ranking.lists import ItemLists
from legcf.ranking.rows import CodedRows

_TOGETHER = 64


def top_k(
    rows: CodedRows,
    projected: FloatArray,
    k: int,
    bias: FloatArray | None,
    seen: Interactions,
) -> tuple[NDArray[np.int32], FloatArray]:
    """Best k rows for each projection, best first, lower index first among equals; −1 where there are fewer than k."""
    items, scores = _room(len(projected), k)
    offsets = np.zeros(0, dtype=np.float32) if bias is None else bias
    scales = np.ones(len(rows), dtype=np.float32) if rows.scales is None else rows.scales
    _search(projected, rows.columns, rows.values, scales, offsets, seen.indptr, seen.items, items, scores)
    return items, scores


def top_k_with_lists(
    rows: CodedRows,
    projected: FloatArray,
    k: int,
    bias: FloatArray | None,
    seen: Interactions,
    lists: ItemLists,
    histories: Interactions,
) -> tuple[NDArray[np.int32], FloatArray]:
    """The same with what the lists of each history add: the few items they reach are ranked first, one by one."""
    items, scores = _room(len(projected), k)
    offsets = np.zeros(0, dtype=np.float32) if bias is None else bias
    scales = np.ones(len(rows), dtype=np.float32) if rows.scales is None else rows.scales
    _search_with_lists(
        projected, rows.columns, rows.values, scales, offsets, seen.indptr, seen.items, lists.own_scales(histories),
        histories.indptr, histories.items, lists.pairs.indptr, lists.pairs.items, lists.weights, items, scores,
    )  # fmt: skip
    return items, scores


def best_k(all_scores: FloatArray, k: int, seen: Interactions) -> tuple[NDArray[np.int32], FloatArray]:
    """The same for scores that are there already (users × items)."""
    items, scores = _room(len(all_scores), k)
    _select(all_scores, seen.indptr, seen.items, items, scores)
    return items, scores


def _room(num_users: int, k: int) -> tuple[NDArray[np.int32], FloatArray]:
    return np.full((num_users, k), -1, dtype=np.int32), np.full((num_users, k), -np.inf, dtype=np.float32)


@njit(cache=True)
def _add(total, weight, row):  # type: ignore[no-untyped-def]
    for x in range(total.shape[0]):
        total[x] += weight * row[x]


@njit(cache=True)
def _add_four(total, w0, r0, w1, r1, w2, r2, w3, r3):  # type: ignore[no-untyped-def]
    for x in range(total.shape[0]):
        total[x] = (((total[x] + w0 * r0[x]) + w1 * r1[x]) + w2 * r2[x]) + w3 * r3[x]


@njit(cache=True)
def _any_above(total, bar):  # type: ignore[no-untyped-def]
    above = np.int32(0)
    for x in range(total.shape[0]):
        above += np.int32(total[x] > bar[x])
    return above > 0


@njit(cache=True)
def _contains(values, start, end, wanted):  # type: ignore[no-untyped-def]
    stop = end
    while start < end:
        middle = (start + end) // 2
        if values[middle] < wanted:
            start = middle + 1
        else:
            end = middle
    return start < stop and values[start] == wanted


@njit(cache=True)
def _insert(items, scores, item, score):  # type: ignore[no-untyped-def]
    place = len(items) - 1
    while place > 0 and scores[place - 1] < score:
        items[place], scores[place] = items[place - 1], scores[place - 1]
        place -= 1
    items[place], scores[place] = item, score


@njit(cache=True)
def _score_item(total, columns, weights, across):  # type: ignore[no-untyped-def]
    total[:] = 0
    t = len(columns)
    k = 0
    while k + 4 <= t:
        _add_four(
            total,
            weights[k],
            across[columns[k]],
            weights[k + 1],
            across[columns[k + 1]],
            weights[k + 2],
            across[columns[k + 2]],
            weights[k + 3],
            across[columns[k + 3]],
        )
        k += 4
    while k < t:
        _add(total, weights[k], across[columns[k]])
        k += 1


@njit(cache=True, parallel=True)
def _search(projected, columns, weights, scales, bias, indptr, seen, items, scores):  # type: ignore[no-untyped-def]
    num_users, num_atoms = projected.shape
    for block in prange((num_users + _TOGETHER - 1) // _TOGETHER):
        first = block * _TOGETHER
        count = min(_TOGETHER, num_users - first)
        across = np.zeros((num_atoms, _TOGETHER), dtype=np.float32)
        for x in range(count):
            for q in range(num_atoms):
                across[q, x] = projected[first + x, q]
        total = np.empty(_TOGETHER, dtype=np.float32)
        unpacked = np.empty(columns.shape[1], dtype=np.float32)
        bar = np.full(_TOGETHER, np.inf, dtype=np.float32)  # lanes without a user never pass
        bar[:count] = -np.inf
        for item in range(len(columns)):
            for k in range(len(unpacked)):
                unpacked[k] = np.float32(weights[item, k]) * scales[item]
            _score_item(total, columns[item], unpacked, across)
            if len(bias):
                total += bias[item]
            if _any_above(total, bar):
                for x in range(count):
                    user = first + x
                    if total[x] > bar[x] and not _contains(seen, indptr[user], indptr[user + 1], item):
                        _insert(items[user], scores[user], item, total[x])
                        bar[x] = scores[user, -1]


@njit(cache=True, parallel=True)
def _search_with_lists(  # type: ignore[no-untyped-def]
    projected, columns, weights, scales, bias, indptr, seen, own, history_indptr, history_items, list_indptr,
    list_items, list_weights, items, scores,
):  # fmt: skip
    num_users, num_atoms = projected.shape
    num_items, t = columns.shape
    for block in prange((num_users + _TOGETHER - 1) // _TOGETHER):
        first = block * _TOGETHER
        count = min(_TOGETHER, num_users - first)
        across = np.zeros((num_atoms, _TOGETHER), dtype=np.float32)
        bar = np.full(_TOGETHER, np.inf, dtype=np.float32)  # lanes without a user never pass
        reached = np.zeros((count, num_items), dtype=np.bool_)
        added = np.zeros(num_items, dtype=np.float32)
        met = np.empty(num_items, dtype=np.int32)
        for x in range(count):
            user = first + x
            for q in range(num_atoms):
                across[q, x] = projected[user, q]
            found = 0
            for place in range(history_indptr[user], history_indptr[user + 1]):
                spoken = history_items[place]
                for at in range(list_indptr[spoken], list_indptr[spoken + 1]):
                    item = list_items[at]
                    if not reached[x, item]:
                        reached[x, item] = True
                        met[found] = item
                        found += 1
                    added[item] += list_weights[at]
            for item in np.sort(met[:found]):  # in order, so that ties go to the lower one
                total = np.float32(0)
                for k in range(t):
                    total += np.float32(weights[item, k]) * scales[item] * projected[user, columns[item, k]]
                if len(bias):
                    total += bias[item]
                total += own[user] * added[item]
                added[item] = 0
                if total > scores[user, -1] and not _contains(seen, indptr[user], indptr[user + 1], item):
                    _insert(items[user], scores[user], item, total)
            bar[x] = scores[user, -1]
        sums = np.empty(_TOGETHER, dtype=np.float32)
        unpacked = np.empty(t, dtype=np.float32)
        for item in range(num_items):
            for k in range(t):
                unpacked[k] = np.float32(weights[item, k]) * scales[item]
            _score_item(sums, columns[item], unpacked, across)
            if len(bias):
                sums += bias[item]
            if _any_above(sums, bar):
                for x in range(count):
                    user = first + x
                    if (
                        sums[x] > bar[x]
                        and not reached[x, item]
                        and not _contains(seen, indptr[user], indptr[user + 1], item)
                    ):
                        _insert(items[user], scores[user], item, sums[x])
                        bar[x] = scores[user, -1]


@njit(cache=True, parallel=True)
def _select(all_scores, indptr, seen, items, scores):  # type: ignore[no-untyped-def]
    for user in prange(len(all_scores)):
        bar = np.float32(-np.inf)
        for item in range(all_scores.shape[1]):
            score = all_scores[user, item]
            if score > bar and not _contains(seen, indptr[user], indptr[user + 1], item):
                _insert(items[user], scores[user], item, score)
                bar = scores[user, -1]
