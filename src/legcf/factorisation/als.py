# SPDX-License-Identifier: Apache-2.0
"""Factorise implicit feedback by alternating least squares: a strong table in seconds, the teacher of a warm start.

Hu, Koren and Volinsky, "Collaborative Filtering for Implicit Feedback Datasets", ICDM 2008, with a few conjugate
gradient steps a row instead of an exact solution (Takács, Pilászy and Tikk, RecSys 2011). Minimises
Σ_observed c (1 − u·v)² + Σ_others (u·v)² + λ (‖U‖² + ‖V‖²), where c = α · the pair's weight.
"""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import Field

from legcf.assignment.dictionary import balance
from legcf.core import distributed
from legcf.core.arrays import FloatArray, inverse_power
from legcf.core.config import Frozen
from legcf.core.hill_climb import climb
from legcf.core.jit import njit, prange
from legcf.core.progress import progress
from legcf.data.interactions import MANY_PAIRS, SAMPLE_ITEMS, Interactions
from legcf.evaluation import evaluate
from legcf.graph.adjacency import bipartite, normalised
from legcf.ranking.ranking import Ranking

_MAP_RIDGE = 1e-3  # of the mean of the Gram matrix's diagonal; not measured
_METRIC_FLOOR = 1e-3  # of the largest eigenvalue; not measured
_FIRST_ALPHA = 10.0  # in the middle of what was best: 5 on LastFM, 10 on Yelp2018, 20 on Gowalla
_HIDDEN = 0.1  # share of the training pairs that α is scored by; not measured, nor are the next two
_EVAL_USERS = 5000
_TRIAL_ROUNDS = 4
_ROWS_DRAWN = 2**16
_TILE_BYTES = 2**19  # vectors of one side that stay in a core's cache while they are met
_PAIRS_A_ROW = 8  # in a tile, for each row of the other side: fewer, and passing over the rows costs more than it saves
_Tiles = list[tuple[slice, sp.csr_matrix]]


class AlsSettings(Frozen):
    alpha: float | None = Field(
        None, gt=0, description="how much more an observed pair weighs than another; found on training pairs if null"
    )
    regularisation: float = Field(5.0, ge=0, description="λ, the weight of the squared norms")
    rounds: int = Field(8, ge=1, description="times both sides are solved")
    degree_power: float = Field(
        0.4, description="a pair weighs 1 / (user degree · item degree)^power, rescaled to mean 1; 0: all the same"
    )
    gradient_steps: int = Field(3, ge=1, description="conjugate gradient steps a row and round")


def factorise(
    train: Interactions,
    width: int,
    rng: np.random.Generator,
    settings: AlsSettings,
    quiet: bool = True,
    title: str = "Factorising",
) -> tuple[FloatArray, FloatArray]:
    """Return user and item vectors whose inner products rank.

    A rank solves its share of the users and keeps no others until the end; from them comes its part of an item's
    equations.
    """
    if settings.alpha is None:
        settings = with_alpha(train, width, rng, settings, quiet)
    shares = distributed.row_partition(train.indptr)
    mine = distributed.local_rows(shares)
    by_user = confidences(train, settings, mine)
    tiles = tiles_of(by_user, width) if distributed.world_size() > 1 else [(slice(None), by_user.T.tocsr())]
    users = _drawn(train.num_users, width, rng, mine)
    items = _drawn(train.num_items, width, rng, slice(0, train.num_items))
    with progress(title, settings.rounds, "rounds", quiet) as task:
        for _ in range(settings.rounds):
            solve_side(by_user, users, items, settings)
            if distributed.world_size() > 1:
                solve_shared(tiles, items, users, settings)
            else:
                solve_side(tiles[0][1], items, users, settings)
            task.advance()
    if distributed.world_size() == 1:
        return users, items
    everyone = np.empty((train.num_users, width), dtype=np.float32)
    everyone[mine] = users
    return distributed.all_gather_rows(everyone, shares), items


def _drawn(rows: int, width: int, rng: np.random.Generator, kept: slice) -> FloatArray:
    """Draw small random vectors; all are drawn, block after block, so that they are the same however few are kept."""
    vectors = np.empty((kept.stop - kept.start, width), dtype=np.float32)
    for start in range(0, rows, _ROWS_DRAWN):
        block = rng.random((min(_ROWS_DRAWN, rows - start), width)) * 0.01
        first, last = max(start, kept.start), min(start + len(block), kept.stop)
        if first < last:
            vectors[first - kept.start : last - kept.start] = block[first - start : last - start]
    return vectors


def with_alpha(
    train: Interactions, width: int, rng: np.random.Generator, settings: AlsSettings, quiet: bool = True
) -> AlsSettings:
    """Return the settings with the α that finds hidden training pairs best, by short factorisations of the others.

    The best α is a property of the data (5 on LastFM, 10 on Yelp2018, 20 on Gowalla), and it must
    not depend on validation pairs, which some protocols do not have. Of many pairs, those of some users are enough.
    """
    if train.num_pairs > MANY_PAIRS:
        if train.num_items > SAMPLE_ITEMS:
            train = train.of_items(train.most_popular(SAMPLE_ITEMS))
        train = train.of_users(train.some_users(MANY_PAIRS, rng))
    hidden = rng.random(train.num_pairs) < _HIDDEN
    seen, truth = train.subset(~hidden), train.subset(hidden)
    able = np.flatnonzero((seen.user_degrees > 0) & (truth.user_degrees > 0))
    if not len(able):
        return settings.model_copy(update={"alpha": _FIRST_ALPHA})
    eval_users = np.sort(rng.choice(able, min(_EVAL_USERS, len(able)), replace=False))
    start = int(rng.integers(2**32))

    def score(alpha: float) -> float:
        trial = settings.model_copy(update={"alpha": alpha, "rounds": min(settings.rounds, _TRIAL_ROUNDS)})
        users, items = factorise(
            seen,
            width,
            np.random.default_rng(start),
            trial,
            quiet,
            f"Factorising with α = {alpha:g}",
        )
        return evaluate(Ranking(users, items, seen), truth, (20,), eval_users, ("ndcg",))["ndcg@20"]

    return settings.model_copy(update={"alpha": climb(score, _FIRST_ALPHA, 1.0, 100.0)})


def confidences(train: Interactions, settings: AlsSettings, users: slice | None = None) -> sp.csr_matrix:
    """Return c of every pair of a range of users, all by default, in CSR form by user."""
    users = users or slice(0, train.num_users)
    bounds, degrees = train.indptr[users.start : users.stop + 1], train.user_degrees[users]
    items = train.items[bounds[0] : bounds[-1]]
    weights = np.repeat(inverse_power(degrees, settings.degree_power), degrees)
    weights *= inverse_power(train.item_degrees, settings.degree_power)[items]
    if train.weights is not None:
        weights *= train.weights[bounds[0] : bounds[-1]]
    assert settings.alpha is not None  # `factorise` has found one
    weights *= settings.alpha / (distributed.all_reduce_sum(weights.sum(keepdims=True))[0] / train.num_pairs)
    return sp.csr_matrix((weights.astype(np.float32), items, bounds - bounds[0]), (len(degrees), train.num_items))


def solve_side(confidence: sp.csr_matrix, own: FloatArray, others: FloatArray, settings: AlsSettings) -> None:
    """Solve one side's vectors (`own`, overwritten) from all of the other side's: the half step of ALS."""
    gram = _ridged(others.T @ others, settings)
    _solve_rows(confidence.indptr, confidence.indices, confidence.data, own, others, gram, settings.gradient_steps)


def tiles_of(by_user: sp.csr_matrix, width: int) -> _Tiles:
    """Return ranges of users whose vectors fit a cache, each with its pairs by item.

    A sum over an item's users is made once per exchange. All items together meet no user twice in a row, so its vector
    would be fetched from memory each time; tile by tile it is in the cache.
    """
    rows, items = by_user.shape
    count = min(-(-rows * 4 * width // _TILE_BYTES), by_user.nnz // (_PAIRS_A_ROW * max(items, 1)))
    bounds = np.linspace(0, rows, max(count, 1) + 1).astype(np.int64)
    return [(slice(first, last), by_user[first:last].T.tocsr()) for first, last in pairwise(bounds.tolist())]


def solve_shared(tiles: _Tiles, own: FloatArray, others: FloatArray, settings: AlsSettings) -> None:
    """Do what `solve_side` does where each rank has some of the others: exchange sums over them at every step.

    The steps are those of `_solve_rows`, for all rows together; between the sums, a rank works on its share of them.
    """
    gram = _ridged(distributed.all_reduce_sum(others.T @ others), settings)
    shares = distributed.even_partition(len(own))
    mine = distributed.local_rows(shares)
    pulled = np.empty_like(own)

    def pull(towards: FloatArray, target: float) -> FloatArray:
        pulled.fill(0)
        for near, part in tiles:
            _pull(part.indptr, part.indices, part.data, towards, others[near], np.float32(target), pulled)
        return distributed.reduce_scatter_rows(pulled, shares)

    solved = own[mine].copy()
    residual = pull(own, 1.0) - solved @ gram
    directions = np.empty_like(own)
    directions[mine] = residual
    size = _squares(residual)
    for _ in range(settings.gradient_steps):
        direction = distributed.all_gather_rows(directions, shares)[mine]
        image = direction @ gram - pull(directions, 0.0)
        curvature = np.einsum("ij,ij->i", direction, image)
        goes_on = size >= 1e-20
        length = np.divide(size, curvature, out=np.zeros_like(size), where=goes_on)
        solved += length[:, None] * direction
        residual -= length[:, None] * image
        previous, size = size, _squares(residual)
        further = np.divide(size, previous, out=np.zeros_like(size), where=goes_on)
        directions[mine] = residual + further[:, None] * direction
    has_pairs = (
        distributed.all_reduce_sum(sum((np.diff(part.indptr) for _, part in tiles), np.zeros(len(own), dtype=np.int64)))
        > 0
    )
    own[mine] = solved * has_pairs[mine, None]
    distributed.all_gather_rows(own, shares)


def _squares(rows: FloatArray) -> FloatArray:
    squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squares


def _ridged(gram: FloatArray, settings: AlsSettings) -> FloatArray:
    return gram + settings.regularisation * np.eye(len(gram), dtype=np.float32)


def linear_map(rows: FloatArray, targets: FloatArray) -> NDArray[np.floating]:
    """Return the W that makes rows · W ≈ targets, by least squares with a small ridge."""
    gram = rows.T.astype(np.float64) @ rows
    ridge = _MAP_RIDGE * np.trace(gram) / len(gram) or 1.0
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), rows.T.astype(np.float64) @ targets)


def history_metric(train: Interactions, items: FloatArray, users: FloatArray) -> FloatArray:
    """Return A (d × d) such that, with items · A for items, the normalised sums over histories act like these users.

    W with (sums · W) ≈ users is a least-squares fit; the scores it gives are sums · W · itemsᵀ, and W's symmetric,
    positive part is A · Aᵀ, one half for each side.
    """
    history = normalised(bipartite(train))[: train.num_users, train.num_users :]
    sums = history @ items
    fitted = linear_map(sums, users)
    values, directions = np.linalg.eigh((fitted + fitted.T) / 2)
    positive = np.maximum(values, values.max() * _METRIC_FLOOR)
    root: FloatArray = ((directions * np.sqrt(positive)) @ directions.T).astype(np.float32)
    return root


def history_items(train: Interactions, users: FloatArray, items: FloatArray) -> FloatArray:
    """Return item vectors whose normalised sums over histories act like these users, the widest directions first."""
    users, items, metric = balance(users, items)
    turned = (items * metric) @ history_metric(train, items * metric, users * metric)
    _, directions = np.linalg.eigh(turned.T.astype(np.float64) @ turned)
    rows: FloatArray = np.ascontiguousarray(turned @ directions[:, ::-1], dtype=np.float32)
    return rows


@njit(cache=True, fastmath=True)
def _times(matrix, vector, out):  # type: ignore[no-untyped-def]
    """Multiply matrix · vector by hand: a BLAS call here would start threads inside threads."""
    for row in range(matrix.shape[0]):
        total = np.float32(0)
        line = matrix[row]
        for column in range(len(vector)):
            total += line[column] * vector[column]
        out[row] = total


@njit(cache=True, parallel=True, fastmath=True)
def _pull(indptr, indices, confidence, own, others, target, pulled):  # type: ignore[no-untyped-def]
    """Add Σ (target · c − (c − 1) v·x) v over the others v of every row x."""
    width = own.shape[1]
    for row in prange(own.shape[0]):
        x, out = own[row], pulled[row]
        for offset in range(indptr[row], indptr[row + 1]):
            other = others[indices[offset]]
            fit = np.float32(0)
            for k in range(width):
                fit += other[k] * x[k]
            missing = target * confidence[offset] - (confidence[offset] - np.float32(1)) * fit
            for k in range(width):
                out[k] += missing * other[k]


@njit(cache=True, parallel=True, fastmath=True)
def _solve_rows(indptr, indices, confidence, own, others, gram, steps):  # type: ignore[no-untyped-def]
    """Conjugate gradient on (G + Σ (c − 1) v vᵀ) u = Σ c v for every row; work memory is a few vectors a thread."""
    width = own.shape[1]
    for row in prange(own.shape[0]):
        first, last = indptr[row], indptr[row + 1]
        if first == last:
            own[row] = 0
            continue
        x = own[row].copy()
        residual = np.empty(width, dtype=np.float32)
        image = np.empty(width, dtype=np.float32)
        _times(gram, x, residual)
        for k in range(width):
            residual[k] = -residual[k]
        for offset in range(first, last):
            other = others[indices[offset]]
            fit = np.float32(0)
            for k in range(width):
                fit += other[k] * x[k]
            missing = confidence[offset] - (confidence[offset] - np.float32(1)) * fit
            for k in range(width):
                residual[k] += missing * other[k]
        direction = residual.copy()
        size = np.float32(0)
        for k in range(width):
            size += residual[k] * residual[k]
        for _ in range(steps):
            if size < 1e-20:
                break
            _times(gram, direction, image)
            for offset in range(first, last):
                other = others[indices[offset]]
                along = np.float32(0)
                for k in range(width):
                    along += other[k] * direction[k]
                along *= confidence[offset] - np.float32(1)
                for k in range(width):
                    image[k] += along * other[k]
            curvature = np.float32(0)
            for k in range(width):
                curvature += direction[k] * image[k]
            length = size / curvature
            previous, size = size, np.float32(0)
            for k in range(width):
                x[k] += length * direction[k]
                residual[k] -= length * image[k]
                size += residual[k] * residual[k]
            for k in range(width):
                direction[k] = residual[k] + size / previous * direction[k]
        own[row] = x
