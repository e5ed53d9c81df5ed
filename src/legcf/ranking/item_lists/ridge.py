# SPDX-License-Identifier: Apache-2.0
"""Solve item lists in closed form: for each item a ridge regression on the few items that may speak for it.

Column i of S solves, over the candidates j ∈ C_i and users weighed by d_u^−p,

    (G_CC + q / (1 − q) · diag(G_CC) + λ · mean(diag G) · I) s = G_Ci,     G = Rᵀ D R,  D = diag(d_u^−p)

where R has the root of a pair's weight, if pairs have weights, and q is the dropout of histories

(EASE, Steck, WWW 2019, with the dropout of EDLAE, Steck, NeurIPS 2020, restricted to candidates as in SLIM, Ning and
Karypis, ICDM 2011). The whole of G is kept only
where items are few. Else memory does not grow with the pairs of items that meet: the small systems are made of the
users of the candidates or, where these have much in common, read off rows of G that are walked to one by one.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import FloatArray, IntArray, LongArray, Positions, inverse_power, sorted_unique
from legcf.core.jit import get_num_threads
from legcf.core.progress import progress
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge_numba import find_nearest, read_off, solve_systems

# All of these decide time and memory alone.
_CHUNKS_PER_THREAD = 16
_SPARSE = 0.02  # pairs / (users · items) below which G is made of the pairs; it decides speed alone
_DENSE_BYTES = 2**28  # small catalogues are dense: there the whole of G is smaller and faster than walking
_FEW_ROWS = 4  # for less than this part of the items, walking is faster all the same
_BLOCK = 2048  # users at once in the product that makes the whole of G
_ITEMS_A_CALL = 2**14  # between two looks at the clock
_SYSTEM_BYTES = 2**28  # of small systems at a time, where they are read off rows of G
_SAMPLED = 64  # items that tell how much work the users of candidates are
# Nanoseconds, about: a step of a walk to a row of G, a value read off it; a user of a candidate, two that it has.
_STEP, _VALUE, _USER, _TWO = 5.0, 9.0, 5.0, 1.2


@dataclass(frozen=True, eq=False)
class Solved:
    """Hold the weights of the candidates of every item, for several ridges, and what each weight explains."""

    candidates: Interactions
    """Row i: the items that may speak for i, sorted. A generic CSR, whose rows are items too."""
    weights: FloatArray
    """ridges × candidates"""
    gains: FloatArray
    """By how much the fit of an item is worse without the weight: s² / (M⁻¹)_jj."""

    def lists(self, ridge: int = 0, user_power: float = 0.5) -> ItemLists:
        """Arrange the weights by the item of the history instead of the item that is spoken for."""
        pairs, weights = _transposed(self.candidates, self.weights[ridge])
        return ItemLists(pairs, weights, user_power)


def find_candidates(
    train: Interactions, count: int, by_item: Interactions, only: Positions | None = None
) -> Interactions:
    """Find the `count` items j with the largest Σ_{v has i and j} d_v^−1 · d_j^−½ for each item i.

    It is a linear filter of the graph (Shen et al., CIKM 2021), truncated. Where items are named in `only`, the others
    have no candidates.
    """
    return _nearest(train, count, 1.0, by_item, only)[0]


def nearest_lists(train: Interactions, count: int, user_power: float, shrinkage: float = 0.0) -> ItemLists:
    """Find for each item the `count` items most like it; Σ_{v has i and j} d_v^−p / (√(d_i d_j) + s) is the weight."""
    candidates, values = _nearest(train, count, user_power, train.transposed(), shrinkage=shrinkage)
    item_scale = inverse_power(train.item_degrees, 0.5).astype(np.float32)
    return ItemLists(*_transposed(candidates, values * item_scale[candidates.rows()]), user_power=0.0)


def _nearest(
    train: Interactions,
    count: int,
    user_power: float,
    by_item: Interactions,
    only: Positions | None = None,
    shrinkage: float = 0.0,
) -> tuple[Interactions, FloatArray]:
    """Find in row i the items j of the largest Σ_{v has i and j} d_v^−p / (√d_j + s / √d_i), and these values.

    They are sorted by item.
    """
    rows = np.arange(train.num_items) if only is None else np.asarray(only, dtype=np.int64)
    user_scale = inverse_power(train.user_degrees, user_power).astype(np.float32)
    item_scale = inverse_power(train.item_degrees, 0.5).astype(np.float32)
    nearest = np.full((len(rows), max(1, min(count, train.num_items - 1))), -1, dtype=np.int32)
    values = np.zeros(nearest.shape, dtype=np.float32)
    lengths = np.repeat(train.user_degrees, train.user_degrees)
    walked = np.bincount(train.items, weights=lengths, minlength=train.num_items)
    shares = distributed.row_partition(_offsets(walked[rows].astype(np.int64)))
    mine = distributed.local_rows(shares)
    find_nearest(
        by_item.indptr, by_item.items, train.indptr, train.items, user_scale, item_scale, np.float32(shrinkage), rows,
        nearest, values, mine.start, mine.stop, _chunks(len(nearest)),
    )  # fmt: skip
    for part in (nearest, values):
        distributed.all_gather_rows(part, shares)
    present = nearest >= 0
    counts = np.zeros(train.num_items, dtype=np.int64)
    counts[rows] = present.sum(axis=1)
    return Interactions(_offsets(counts), nearest[present], train.num_items), values[present]


def solve(
    train: Interactions,
    candidates: Interactions,
    ridges: tuple[float, ...],
    user_power: float,
    by_item: Interactions,
    gram: FloatArray | None = None,
    explains: bool = True,
    dropout: float = 0.0,
) -> Solved:
    """Solve the weights for each ridge, in units of G's mean diagonal so that one grid suits all data.

    `gram` is the whole of G, where it is at hand. Gains, which are most of the work, are zero unless it `explains`.
    """
    user_weights = inverse_power(train.user_degrees, user_power).astype(np.float32)
    roots = np.empty(0, dtype=np.float32) if by_item.weights is None else np.sqrt(by_item.weights)
    diagonal = (
        train.user_degrees * user_weights if by_item.weights is None else by_item.weights * user_weights[by_item.items]
    )
    unit = float(diagonal.sum() / max(train.num_items, 1))
    whole = np.zeros((0, 0), dtype=np.float32)
    some = np.count_nonzero(candidates.row_lengths) * _FEW_ROWS < train.num_items
    if gram is not None:
        whole = gram
    elif fits_whole_gram(train.num_items) and not some:
        whole = gram_of(train, user_power)
    shape = (len(ridges), candidates.num_pairs)
    weights, gains = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    shares = distributed.row_partition(candidates.indptr)
    mine = distributed.local_rows(shares)
    scaled = np.array([ridge * unit for ridge in ridges], dtype=np.float32)
    no_systems = np.zeros((0, 0, 0), dtype=np.float32)
    longest = int(candidates.row_lengths.max(initial=0))
    block = max(1, min(_ITEMS_A_CALL, _SYSTEM_BYTES // (4 * (longest + 1) * max(longest, 1))))
    rows = np.arange(mine.start, mine.stop)
    walks = False
    if not len(whole) and not some:
        together = rows[np.argsort(_hubs(candidates, train.item_degrees)[mine], kind="stable")]
        walks = _walks_less(train, by_item, candidates, together, block)
        rows = together if walks else rows
    with progress("Item lists", mine.stop - mine.start, "items", quiet=mine.stop - mine.start <= _ITEMS_A_CALL) as task:
        for start in range(0, len(rows), block):
            some_rows = rows[start : start + block]
            systems = _systems(train, by_item, candidates, user_weights, some_rows) if walks else no_systems
            solve_systems(
                by_item.indptr, by_item.items, roots, candidates.indptr, candidates.items, user_weights, scaled,
                np.float32(1 - dropout), weights, gains, train.num_users, whole, systems, some_rows,
                _chunks(len(some_rows)), explains,
            )  # fmt: skip
            task.advance(len(some_rows))
    for line in (*weights, *gains):
        distributed.all_gather_rows(line, candidates.indptr[shares])
    return Solved(candidates, weights, gains)


def _hubs(candidates: Interactions, degrees: NDArray[np.integer]) -> LongArray:
    """Return of every item the most popular of its candidates: items that share it share more of them."""
    hubs = np.full(candidates.num_rows, -1, dtype=np.int64)
    able = np.flatnonzero(candidates.row_lengths)
    if len(able):
        keys = degrees[candidates.items].astype(np.int64) * candidates.num_items + candidates.items
        hubs[able] = np.maximum.reduceat(keys, candidates.indptr[able]) % candidates.num_items
    return hubs


def _walks_less(
    train: Interactions, by_item: Interactions, candidates: Interactions, rows: LongArray, block: int
) -> bool:
    """Say whether walking to the rows of G that blocks of items need is less work than going by users of candidates.

    A row is walked to once a block, by way of all that its users have. By users it takes the square of how many of an
    item's candidates a user has, which some items tell.
    """
    lengths = np.repeat(train.user_degrees, train.user_degrees)
    ways = np.bincount(train.items, weights=lengths, minlength=train.num_items)
    walking = _VALUE * float((candidates.row_lengths[rows].astype(np.float64) ** 2).sum())
    for start in range(0, len(rows), block):
        walking += _STEP * float(ways[sorted_unique(candidates.of_users(rows[start : start + block]).items)].sum())
    some = rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), _SAMPLED).astype(np.int64))] if len(rows) else rows
    by_users = 0.0
    for item in some:
        users = [by_item.of(candidate) for candidate in candidates.of(item)]
        met = np.unique(np.concatenate([np.empty(0, dtype=np.int32), *users]), return_counts=True)[1]
        by_users += _TWO * float((met.astype(np.float64) ** 2).sum()) + _USER * float(met.sum())
    return bool(walking < by_users * len(rows) / max(len(some), 1))


def _systems(
    train: Interactions, by_item: Interactions, candidates: Interactions, user_weights: FloatArray, rows: LongArray
) -> FloatArray:
    """Return for each of some items G_CC, and G_Ci in one more column."""
    some_candidates = candidates.of_users(rows)
    longest = int(some_candidates.row_lengths.max(initial=0))
    systems = np.zeros((len(rows), longest, longest + 1), dtype=np.float32)
    order = np.argsort(some_candidates.items, kind="stable")  # what a candidate's row of G is needed for, together
    needed, first = np.unique(some_candidates.items[order], return_index=True)
    firsts = np.append(first, len(order)).astype(np.int64)
    none = np.empty(0, dtype=np.float32)
    read_off(
        by_item.indptr, by_item.items, none if by_item.weights is None else np.sqrt(by_item.weights),
        train.indptr, train.items, none if train.weights is None else np.sqrt(train.weights), user_weights,
        some_candidates.indptr, some_candidates.items, some_candidates.users(), order, needed, firsts, rows, systems,
        _chunks(len(needed)),
    )  # fmt: skip
    return systems


def strongest(gains: FloatArray, count: int) -> NDArray[np.bool_]:
    """Mark the `count` candidates that explain most, whichever items they belong to."""
    kept = np.zeros(len(gains), dtype=np.bool_)
    kept[np.argpartition(-gains, count)[:count] if count < len(gains) else slice(None)] = True
    return kept


def _transposed(candidates: Interactions, weights: FloatArray) -> tuple[Interactions, FloatArray]:
    by_row = sp.csr_matrix((weights, candidates.items, candidates.indptr), (candidates.num_rows, candidates.num_items))
    by_item = by_row.tocsc()  # in one pass, where a stable sort takes many times as long
    targets: IntArray = by_item.indices.astype(np.int32, copy=False)
    return Interactions(by_item.indptr.astype(np.int64), targets, candidates.num_rows), by_item.data


def fits_whole_gram(num_items: int) -> bool:
    """Say whether G of so many items is small enough to be kept whole."""
    return num_items**2 * 4 <= _DENSE_BYTES


def gram_of(train: Interactions, user_power: float) -> FloatArray:
    """Compute the whole of G in the way that is sooner done: of the pairs that there are, where these are few."""
    if train.num_pairs <= _SPARSE * train.num_users * train.num_items:
        return sparse_gram(train, user_power)
    return whole_gram(train, inverse_power(train.user_degrees, user_power).astype(np.float32))


def sparse_gram(train: Interactions, user_power: float) -> FloatArray:
    """Compute the same as `whole_gram`, for every process alone and from the pairs that there are."""
    matrix = train.to_scipy().sqrt().astype(np.float32)
    scaled = sp.diags(np.sqrt(inverse_power(train.user_degrees, user_power)).astype(np.float32)) @ matrix
    gram: FloatArray = (scaled.T @ scaled).toarray()
    return gram


def whole_gram(train: Interactions, user_weights: FloatArray) -> FloatArray:
    """Compute G = Rᵀ D R for all items."""
    roots = sp.diags(np.sqrt(user_weights)).tocsr() @ train.to_scipy().sqrt().astype(np.float32)
    gram = np.zeros((train.num_items, train.num_items), dtype=np.float32)
    mine = distributed.local_rows(distributed.row_partition(train.indptr))
    for start in range(mine.start, mine.stop, _BLOCK):
        block = roots[start : min(start + _BLOCK, mine.stop)].toarray()
        gram += block.T @ block  # of one array with itself, BLAS makes a half
    return distributed.all_reduce_sum(gram)


def _offsets(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _chunks(rows: int) -> int:
    return max(1, min(rows, get_num_threads() * _CHUNKS_PER_THREAD))
