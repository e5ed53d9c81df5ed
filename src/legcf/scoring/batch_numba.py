# SPDX-License-Identifier: Apache-2.0
"""Top-k for many users at once, compiled: the same answers as numpy to the last bit, many times faster.

Users are taken 64 at a time. Their projections lie beside each other (c × 64, in the cache), so an item's code turns
into t products of one weight with 64 neighbouring numbers, which the compiler turns into vector instructions; and a
score has to beat the user's k-th best so far before anything else is looked at.
"""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.jit import njit, prange
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.ranking.tables.pooling import Pooling

_TOGETHER = 64


def top_k(
    rows: CodebookTable,
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
    rows: CodebookTable,
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
        projected, rows.columns, rows.values, scales, offsets, seen.indptr, seen.items, lists.user_scales(histories),
        histories.indptr, histories.items, _relative(histories), lists.pairs.indptr, lists.pairs.items, lists.weights,
        items, scores,
    )  # fmt: skip
    return items, scores


def pooled_vectors(rows: CodebookTable, pooling: Pooling, histories: Interactions) -> FloatArray:
    """Vectors of users that are the weighted sums of their items, each as `Pooling.vector` makes it."""
    vectors = np.zeros((histories.num_users, rows.width), dtype=np.float32)
    scales = np.ones(len(rows), dtype=np.float32) if rows.scales is None else rows.scales
    _pool(
        rows.columns, rows.values, scales, rows.codebook, pooling.item_weights, histories.indptr, histories.items,
        _relative(histories), pooling.user_scales(histories), vectors,
    )  # fmt: skip
    return vectors


def best_k(all_scores: FloatArray, k: int, seen: Interactions) -> tuple[NDArray[np.int32], FloatArray]:
    """The same for scores that are there already (users × items)."""
    items, scores = _room(len(all_scores), k)
    _select(all_scores, seen.indptr, seen.items, items, scores)
    return items, scores


def _relative(histories: Interactions) -> FloatArray:
    """How much each pair counts; empty where all count alike."""
    relative = histories.relative_weights
    return np.zeros(0, dtype=np.float32) if relative is None else relative


def _room(num_users: int, k: int) -> tuple[NDArray[np.int32], FloatArray]:
    return np.full((num_users, k), -1, dtype=np.int32), np.full((num_users, k), -np.inf, dtype=np.float32)


@njit(cache=True, inline="always")  # a call takes as long as the sums
def _score_item(sums, across, columns, weights, scale, bias, item):  # type: ignore[no-untyped-def]
    """Whole arrays and numbers of places, no rows cut out of them: cutting takes longer than the sums themselves."""
    weight, column = np.float32(weights[item, 0]) * scale, columns[item, 0]
    for x in range(_TOGETHER):
        sums[x] = weight * across[column, x]
    for k in range(1, columns.shape[1]):
        weight, column = np.float32(weights[item, k]) * scale, columns[item, k]
        for x in range(_TOGETHER):
            sums[x] += weight * across[column, x]
    if len(bias):
        for x in range(_TOGETHER):
            sums[x] += bias[item]


@njit(cache=True, inline="always")  # a call takes as long as the sums
def _any_reaches(sums, bar):  # type: ignore[no-untyped-def]
    reaching = np.int32(0)
    for x in range(_TOGETHER):
        reaching |= np.int32(sums[x] >= bar[x])
    return reaching != 0


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
def _before(score, item, other_score, other):  # type: ignore[no-untyped-def]
    return score > other_score or (score == other_score and item < other)


@njit(cache=True)
def _bar(scores):  # type: ignore[no-untyped-def]
    """What the next score has to reach: the last that is kept; infinity where none is."""
    return scores[len(scores) - 1] if len(scores) else np.float32(np.inf)


@njit(cache=True)
def _insert(items, scores, item, score):  # type: ignore[no-untyped-def]
    """Where it belongs, whatever came before; nowhere if it is behind the last, or if nothing is kept."""
    place = len(items) - 1
    if place < 0 or not _before(score, item, scores[place], items[place]):
        return
    while place > 0 and _before(score, item, scores[place - 1], items[place - 1]):
        items[place], scores[place] = items[place - 1], scores[place - 1]
        place -= 1
    items[place], scores[place] = item, score


@njit(cache=True, parallel=True)
def _pool(  # type: ignore[no-untyped-def]
    columns, weights, scales, codebook, item_weights, indptr, items, relative, own, vectors
):  # fmt: skip
    width = codebook.shape[1]
    for user in prange(len(vectors)):
        vector = np.empty(width, dtype=np.float32)
        for place in range(indptr[user], indptr[user + 1]):
            item = items[place]
            weight, column = np.float32(weights[item, 0]) * scales[item], columns[item, 0]
            for x in range(width):
                vector[x] = weight * codebook[column, x]
            for k in range(1, columns.shape[1]):
                weight, column = np.float32(weights[item, k]) * scales[item], columns[item, k]
                for x in range(width):
                    vector[x] += weight * codebook[column, x]
            for x in range(width):
                vector[x] *= item_weights[item]
            if len(relative):
                for x in range(width):
                    vector[x] *= relative[place]
            for x in range(width):
                vectors[user, x] += vector[x]
        for x in range(width):
            vectors[user, x] *= own[user]


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
        sums = np.empty(_TOGETHER, dtype=np.float32)
        bar = np.full(_TOGETHER, np.inf, dtype=np.float32)  # lanes without a user never pass
        bar[:count] = -np.inf if scores.shape[1] else np.inf
        for item in range(len(columns)):
            _score_item(sums, across, columns, weights, scales[item], bias, item)
            if _any_reaches(sums, bar):
                for x in range(count):
                    user = first + x
                    if sums[x] > bar[x] and not _contains(seen, indptr[user], indptr[user + 1], item):
                        _insert(items[user], scores[user], item, sums[x])
                        bar[x] = _bar(scores[user])


@njit(cache=True, parallel=True)
def _search_with_lists(  # type: ignore[no-untyped-def]
    projected, columns, weights, scales, bias, indptr, seen, own, history_indptr, history_items, relative,
    list_indptr, list_items, list_weights, items, scores,
):  # fmt: skip
    num_users, num_atoms = projected.shape
    num_items, t = columns.shape
    for block in prange((num_users + _TOGETHER - 1) // _TOGETHER):
        first = block * _TOGETHER
        count = min(_TOGETHER, num_users - first)
        across = np.zeros((num_atoms, _TOGETHER), dtype=np.float32)
        bar = np.full(_TOGETHER, np.inf, dtype=np.float32)  # lanes without a user never pass
        settled = np.zeros(num_items, dtype=np.uint64)  # bit x: user x has the item, or its lists reached it
        added = np.zeros(num_items, dtype=np.float32)
        met = np.empty(num_items, dtype=np.int32)
        for x in range(count):
            user = first + x
            own_bit = np.uint64(1) << np.uint64(x)
            for q in range(num_atoms):
                across[q, x] = projected[user, q]
            for place in range(indptr[user], indptr[user + 1]):
                settled[seen[place]] |= own_bit
            found = 0
            for place in range(history_indptr[user], history_indptr[user + 1]):
                spoken = history_items[place]
                factor = relative[place] if len(relative) else np.float32(1)
                for at in range(list_indptr[spoken], list_indptr[spoken + 1]):
                    item = list_items[at]
                    added[item] += factor * list_weights[at]
                    if not settled[item] & own_bit:
                        settled[item] |= own_bit
                        met[found] = item
                        found += 1
            for place in range(found):
                item = met[place]
                total = np.float32(0)
                for k in range(t):
                    total += np.float32(weights[item, k]) * scales[item] * projected[user, columns[item, k]]
                if len(bias):
                    total += bias[item]
                total += own[user] * added[item]
                added[item] = 0
                if total >= _bar(scores[user]):
                    _insert(items[user], scores[user], item, total)
            for place in range(indptr[user], indptr[user + 1]):
                added[seen[place]] = 0
            bar[x] = _bar(scores[user])
        sums = np.empty(_TOGETHER, dtype=np.float32)
        for item in range(num_items):
            _score_item(sums, across, columns, weights, scales[item], bias, item)
            if _any_reaches(sums, bar):
                for x in range(count):
                    user = first + x
                    if sums[x] >= bar[x] and not (settled[item] >> np.uint64(x)) & np.uint64(1):
                        _insert(items[user], scores[user], item, sums[x])
                        bar[x] = _bar(scores[user])


@njit(cache=True, parallel=True)
def _select(all_scores, indptr, seen, items, scores):  # type: ignore[no-untyped-def]
    for user in prange(len(all_scores)):
        bar = _bar(scores[user])
        for item in range(all_scores.shape[1]):
            score = all_scores[user, item]
            if score > bar and not _contains(seen, indptr[user], indptr[user + 1], item):
                _insert(items[user], scores[user], item, score)
                bar = _bar(scores[user])
