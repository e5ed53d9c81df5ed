# SPDX-License-Identifier: Apache-2.0
"""Find the highest scores of many users at once, compiled: the same answers as numpy, many times faster.

Every search here keeps its best with the same `_insert`: best first, the lower item number first among equals, −1 and
−inf where there are fewer than k. All kernels stand in this module, since numba's cache of a function does not notice
that a function of another module has changed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.core.jit import get_num_threads, njit, prange
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.ranking.tables.pooling_numba import relative_array
from legcf.ranking.topk_numpy import TopK, empty_top_k

_TOGETHER = 64  # users whose projections lie beside each other: a bit of a uint64 for each
_FEW_REACHED = 0.25  # of all items by the lists of a history; beyond, all scores are made; decides speed alone
_ROUNDING = 2.0**-24  # of a float32 number, which is off by no more
_CHUNKS_PER_THREAD = 8  # of `move_items`: small enough that no thread waits long for another


def top_k(all_scores: FloatArray, k: int, seen: Interactions) -> TopK:
    """Return the k best items of each row of scores (users × items), without those that the user has seen."""
    items, scores = empty_top_k(len(all_scores), k)
    _select(all_scores, seen.indptr, seen.items, items, scores)
    return items, scores


def reaches_few(lists: ItemLists | None, histories: Interactions) -> bool:
    """Say whether the lists of a history reach few items, so that `search_codes` ranks most by their codes alone."""
    if lists is None:
        return True
    reached = float(lists.lengths[histories.items].sum())
    return reached < _FEW_REACHED * histories.num_users * histories.num_items


def search_codes(
    rows: CodebookTable,
    projected: FloatArray,
    k: int,
    bias: FloatArray | None,
    seen: Interactions,
    lists: ItemLists | None,
    histories: Interactions,
) -> TopK:
    """Return the k best items of each projection, scored by their codes on the way, with what lists add.

    Users are taken 64 at a time. Their projections lie beside each other (c × 64, in the cache), so an item's code
    turns into t products of one weight with 64 neighbouring numbers, which the compiler turns into vector instructions;
    and a score has to beat the user's k-th best so far before anything else is looked at. The few items that the lists
    of a history reach are scored one by one.
    """
    lists = ItemLists.empty(len(rows)) if lists is None else lists
    items, scores = empty_top_k(len(projected), k)
    _search(
        projected, *_code_arrays(rows, bias), seen.indptr, seen.items, lists.user_scales(histories),
        histories.indptr, histories.items, relative_array(histories),
        lists.pairs.indptr, lists.pairs.items, lists.weights, items, scores,
    )  # fmt: skip
    return items, scores


def code_products(rows: CodebookTable, queries: FloatArray, asked: Positions, which: Positions) -> FloatArray:
    """Return `CodebookTable.products` of the queries numbered `asked`, to the last bit."""
    products = np.empty(len(which), dtype=np.float32)
    columns, weights, scales, _ = _code_arrays(rows, None)
    _multiply_codes(queries, asked, which, columns, weights, scales, rows.codebook, products)
    return products


def find_near(
    best: TopK, k: int, reach: FloatArray, speakers: NDArray[np.integer], users: tuple[NDArray[Any], ...], steps: float
) -> tuple[Positions, Positions]:
    """Return whose first k scores may be in another order, and whose may be others, by how much scores are off.

    `users` are what `scoring.settle` knows of them: the lengths of their vectors, how many items they have, how large a
    sum can be, by how much any score may be off; `steps` is how many terms a product has.
    """
    items, scores = best
    near, unsure = np.empty(len(items), dtype=np.bool_), np.empty(len(items), dtype=np.bool_)
    _find_near(items, scores, k, reach, speakers, *users, steps, near, unsure)
    return np.flatnonzero(near), np.flatnonzero(unsure)


def move_items(
    users: FloatArray,
    items: FloatArray,
    lists: ItemLists,
    histories: Interactions,
    seen: Interactions,
    best: TopK,
    ranked: TopK,
) -> NDArray[np.bool_]:
    """Fill `ranked` with the best of vectors and lists, where `best` by vectors alone is at hand.

    Returns for whom that was enough to know them: whose best items lists all move is left out, and who has no vector.
    """
    complete: NDArray[np.bool_] = np.any(users != 0, axis=1)
    chunks = max(1, min(len(users), get_num_threads() * _CHUNKS_PER_THREAD))
    _merge(
        users, items, lists.user_scales(histories), histories.indptr, histories.items, relative_array(histories),
        seen.indptr, seen.items, lists.pairs.indptr, lists.pairs.items, lists.weights,
        *best, *ranked, complete, chunks,
    )  # fmt: skip
    return complete


def _code_arrays(
    rows: CodebookTable, bias: FloatArray | None
) -> tuple[NDArray[np.unsignedinteger], FloatArray | NDArray[np.int8], FloatArray, FloatArray]:
    scales = np.ones(len(rows), dtype=np.float32) if rows.scales is None else rows.scales
    return rows.columns, rows.values, scales, np.zeros(0, dtype=np.float32) if bias is None else bias


@njit(cache=True)
def _bar(scores):  # type: ignore[no-untyped-def]
    """Return what the next score has to reach: the last that is kept; infinity where k is 0 and none is."""
    return scores[len(scores) - 1] if len(scores) else np.float32(np.inf)


@njit(cache=True)
def _before(score, item, other_score, other):  # type: ignore[no-untyped-def]
    return score > other_score or (score == other_score and item < other)


@njit(cache=True)
def _insert(items, scores, item, score):  # type: ignore[no-untyped-def]
    """Put an item at its rank, whatever came before; nowhere if it is behind the last, or if nothing is kept."""
    rank = len(items) - 1
    if rank < 0 or not _before(score, item, scores[rank], items[rank]):
        return
    while rank > 0 and _before(score, item, scores[rank - 1], items[rank - 1]):
        items[rank], scores[rank] = items[rank - 1], scores[rank - 1]
        rank -= 1
    items[rank], scores[rank] = item, score


@njit(cache=True)
def _contains(values, start, end, value):  # type: ignore[no-untyped-def]
    """Search sorted values by bisection."""
    stop = end
    while start < end:
        middle = (start + end) // 2
        if values[middle] < value:
            start = middle + 1
        else:
            end = middle
    return start < stop and values[start] == value


@njit(cache=True, parallel=True)
def _select(all_scores, indptr, seen, items, scores):  # type: ignore[no-untyped-def]
    """Compare every score with the worst that is kept; most fail this one comparison."""
    for user in prange(len(all_scores)):
        line = all_scores[user]
        bar = _bar(scores[user])
        for item in range(len(line)):
            if line[item] > bar and not _contains(seen, indptr[user], indptr[user + 1], item):
                _insert(items[user], scores[user], item, line[item])
                bar = _bar(scores[user])


@njit(cache=True, inline="always")  # a call takes as long as the sums
def _score_item(sums, across, columns, weights, scale, bias, item):  # type: ignore[no-untyped-def]
    """Take whole arrays and indices, no rows cut out of them: cutting takes longer than the sums themselves."""
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


@njit(cache=True, parallel=True)
def _search(  # type: ignore[no-untyped-def]
    projected, columns, weights, scales, bias, indptr, seen, user_scales, history_indptr, history_items, relative,
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
        is_reached = np.zeros(num_items, dtype=np.bool_)
        totals = np.empty(num_items, dtype=np.float32)
        reached = np.empty(num_items, dtype=np.int32)
        for x in range(count):
            user = first + x
            own_bit = np.uint64(1) << np.uint64(x)
            for q in range(num_atoms):
                across[q, x] = projected[user, q]
            for pair in range(indptr[user], indptr[user + 1]):
                settled[seen[pair]] |= own_bit
            num_reached = 0
            # A score is made when its item is first reached, and list after list is added: in numpy's order.
            for pair in range(history_indptr[user], history_indptr[user + 1]):
                speaker = history_items[pair]
                for entry in range(list_indptr[speaker], list_indptr[speaker + 1]):
                    item = list_items[entry]
                    if not is_reached[item]:
                        if settled[item] & own_bit:
                            continue
                        is_reached[item] = True
                        settled[item] |= own_bit
                        reached[num_reached] = item
                        num_reached += 1
                        total = np.float32(weights[item, 0]) * scales[item] * projected[user, columns[item, 0]]
                        for k in range(1, t):
                            total += np.float32(weights[item, k]) * scales[item] * projected[user, columns[item, k]]
                        if len(bias):
                            total += bias[item]
                        totals[item] = total
                    weight = list_weights[entry] * relative[pair] if len(relative) else list_weights[entry]
                    totals[item] += user_scales[user] * weight
            for number in range(num_reached):
                item = reached[number]
                is_reached[item] = False
                if totals[item] >= _bar(scores[user]):
                    _insert(items[user], scores[user], item, totals[item])
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


@njit(cache=True)
def _multiply_codes(queries, asked, which, columns, weights, scales, codebook, products):  # type: ignore[no-untyped-def]
    width = codebook.shape[1]
    whole = width // 4 * 4
    for number in range(len(which)):
        query, item = asked[number], which[number]
        total = np.float32(0)
        for k in range(columns.shape[1]):
            column = columns[item, k]
            first = second = third = fourth = 0.0
            for x in range(0, whole, 4):
                first += np.float64(queries[query, x]) * codebook[column, x]
                second += np.float64(queries[query, x + 1]) * codebook[column, x + 1]
                third += np.float64(queries[query, x + 2]) * codebook[column, x + 2]
                fourth += np.float64(queries[query, x + 3]) * codebook[column, x + 3]
            for x in range(whole, width):
                first += np.float64(queries[query, x]) * codebook[column, x]
            total += np.float32(weights[item, k]) * scales[item] * np.float32((first + second) + (third + fourth))
        products[number] = total


@njit(cache=True)
def _find_near(  # type: ignore[no-untyped-def]
    items, scores, k, reach, speakers, lengths, known, largest, furthest, steps, near, unsure
):  # fmt: skip
    for row in range(len(items)):
        gap = np.float32(np.inf)
        for rank in range(k):
            gap = min(gap, scores[row, rank] - scores[row, rank + 1])
        last = scores[row, -1]
        if gap > 2 * furthest[row] or not scores[row, 0] > -np.inf:
            near[row] = unsure[row] = False
            continue
        most = 0.0
        for rank in range(items.shape[1]):
            product = reach[items[row, rank]] * lengths[row]
            added = min(speakers[items[row, rank]], known[row])
            most = max(most, steps * product + 2 * (added + 2) * (product + largest[row]))
        most *= _ROUNDING
        near[row] = gap <= 2 * most
        unsure[row] = last > -np.inf and last + furthest[row] >= scores[row, k - 1] - most


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract"})
def _merge(  # type: ignore[no-untyped-def]
    vectors, items, scales, indptr, history, relative, seen_indptr, seen, list_indptr, list_items, list_weights,
    best_items, best_scores, ranked, scores, complete, chunks,
):  # fmt: skip
    """Rank what lists move by its own products, and the best of the rest; not `complete` where that may not be all."""
    num_items, width = items.shape
    k = ranked.shape[1]
    for chunk in prange(chunks):
        added = np.zeros(num_items, dtype=np.float32)
        state = np.zeros(num_items, dtype=np.int8)  # 1 where it is moved, 2 where it has been seen
        moved = np.empty(num_items, dtype=np.int32)
        for row in range(chunk, len(vectors), chunks):
            if not complete[row]:
                continue
            first, last = seen_indptr[row], seen_indptr[row + 1]
            for pair in range(first, last):
                state[seen[pair]] = 2
            size = 0
            for pair in range(indptr[row], indptr[row + 1]):
                factor = scales[row] * relative[pair] if len(relative) else scales[row]
                speaker = history[pair]
                for entry in range(list_indptr[speaker], list_indptr[speaker + 1]):
                    item = list_items[entry]
                    if state[item] == 0:
                        state[item] = 1
                        moved[size] = item
                        size += 1
                    added[item] += factor * list_weights[entry]
            user = vectors[row]
            for number in range(size):
                item = moved[number]
                product = np.float32(0)
                for column in range(width):
                    product += user[column] * items[item, column]
                _insert(ranked[row], scores[row], item, product + added[item])
            left = 0
            for position in range(best_items.shape[1]):
                item = best_items[row, position]
                if item < 0 or left == k:
                    left = k  # there are no more items, or no more can be among the first k
                    break
                if state[item] == 0:
                    _insert(ranked[row], scores[row], item, best_scores[row, position])
                    left += 1
            complete[row] = left == k or best_items.shape[1] == num_items
            if not complete[row]:
                ranked[row], scores[row] = -1, -np.inf
            for pair in range(indptr[row], indptr[row + 1]):
                speaker = history[pair]
                for entry in range(list_indptr[speaker], list_indptr[speaker + 1]):
                    added[list_items[entry]] = 0
            for number in range(size):
                state[moved[number]] = 0
            for pair in range(first, last):
                state[seen[pair]] = 0
