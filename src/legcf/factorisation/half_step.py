# SPDX-License-Identifier: Apache-2.0
"""Solve one side of a factorisation from the other: the half step of ALS, alone or shared among ranks.

For every row, a few conjugate gradient steps on (G + Σ (c − 1) v vᵀ) u = Σ c v, G = VᵀV + λ I, over the v that it has.
Both sides may be turned alike without a change to any inner product, and are turned such that G is diagonal: then a
step takes d products for G, not d².
"""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from legcf.core import distributed
from legcf.core.arrays import FloatArray
from legcf.core.jit import njit, prange

if TYPE_CHECKING:
    from legcf.factorisation.als import AlsSettings

_TILE_BYTES = 2**19  # vectors of one side that stay in a core's cache while they are met
_PAIRS_A_ROW = 8  # in a tile, for each row of the other side: fewer, and passing over the rows costs more than it saves
_ROWS_TURNED = 2**13  # at a time: so many more are in memory
Tiles = list[tuple[slice, sp.csr_matrix]]


def solve_side(confidence: sp.csr_matrix, side: FloatArray, others: FloatArray, settings: "AlsSettings") -> None:
    """Solve the vectors of one side (overwritten) from all of the other's: the half step of ALS."""
    turn(side, solve_turned(confidence, side, others.copy(), settings).T)


def solve_turned(
    confidence: sp.csr_matrix, side: FloatArray, others: FloatArray, settings: "AlsSettings"
) -> FloatArray:
    """Do what `solve_side` does, and leave both sides (overwritten) turned by the d × d matrix that is returned."""
    spectrum, basis = (one.astype(np.float32) for one in np.linalg.eigh((others.T @ others).astype(np.float64)))
    distributed.broadcast_arrays((spectrum, basis))  # ranks that turn otherwise could not add their sums
    for vectors in (side, others):
        turn(vectors, basis)
    spectrum += np.float32(settings.regularisation)
    _solve_rows(confidence.indptr, confidence.indices, confidence.data, side, others, spectrum, settings.gradient_steps)
    turned: FloatArray = basis
    return turned


def turn(vectors: FloatArray, basis: FloatArray) -> None:
    """Multiply vectors by a d × d matrix, in their memory."""
    for start in range(0, len(vectors), _ROWS_TURNED):
        vectors[start : start + _ROWS_TURNED] = vectors[start : start + _ROWS_TURNED] @ basis


def tiles_of(by_user: sp.csr_matrix, width: int) -> Tiles:
    """Return ranges of users whose vectors fit a cache, each with its pairs by item.

    A sum over an item's users is made once per exchange. All items together meet no user twice in a row, so its vector
    would be fetched from memory each time; tile by tile it is in the cache.
    """
    rows, items = by_user.shape
    count = min(-(-rows * 4 * width // _TILE_BYTES), by_user.nnz // (_PAIRS_A_ROW * max(items, 1)))
    bounds = np.linspace(0, rows, max(count, 1) + 1).astype(np.int64)
    return [(slice(first, last), by_user[first:last].T.tocsr()) for first, last in pairwise(bounds.tolist())]


def solve_shared(tiles: Tiles, side: FloatArray, others: FloatArray, settings: "AlsSettings") -> None:
    """Do what `solve_side` does where each rank has some of the others: exchange sums over them at every step.

    The steps are those of `_solve_rows`, for all rows together; between the sums, a rank works on its share of them.
    """
    gram = _ridged(distributed.all_reduce_sum(others.T @ others), settings)
    shares = distributed.even_partition(len(side))
    mine = distributed.local_rows(shares)
    pulled = np.empty_like(side)

    def pull(towards: FloatArray, target: float) -> FloatArray:
        pulled.fill(0)
        for near, part in tiles:
            _pull(part.indptr, part.indices, part.data, towards, others[near], np.float32(target), pulled)
        return distributed.reduce_scatter_rows(pulled, shares)

    solved = side[mine].copy()
    residual = pull(side, 1.0) - solved @ gram
    directions = np.empty_like(side)
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
        distributed.all_reduce_sum(
            sum((np.diff(part.indptr) for _, part in tiles), np.zeros(len(side), dtype=np.int64))
        )
        > 0
    )
    side[mine] = solved * has_pairs[mine, None]
    distributed.all_gather_rows(side, shares)


def _squares(rows: FloatArray) -> FloatArray:
    squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squares


def _ridged(gram: FloatArray, settings: "AlsSettings") -> FloatArray:
    return gram + settings.regularisation * np.eye(len(gram), dtype=np.float32)


@njit(cache=True, parallel=True, fastmath=True)
def _pull(indptr, indices, confidence, side, others, target, pulled):  # type: ignore[no-untyped-def]
    """Add Σ (target · c − (c − 1) v·x) v over the others v of every row x."""
    width = side.shape[1]
    for row in prange(side.shape[0]):
        x, out = side[row], pulled[row]
        for offset in range(indptr[row], indptr[row + 1]):
            other = others[indices[offset]]
            fit = np.float32(0)
            for k in range(width):
                fit += other[k] * x[k]
            missing = target * confidence[offset] - (confidence[offset] - np.float32(1)) * fit
            for k in range(width):
                out[k] += missing * other[k]


@njit(cache=True, fastmath=True)
def _add_pairs(first, last, indices, confidence, others, x, target, sums):  # type: ignore[no-untyped-def]
    """Add Σ (target · c − (c − 1) v·x) v over a row's pairs; the sums are read and written once for four of them."""
    width, one = len(x), np.float32(1)
    whole = first + (last - first) // 4 * 4
    for at in range(first, whole, 4):
        v0, v1, v2, v3 = others[indices[at]], others[indices[at + 1]], others[indices[at + 2]], others[indices[at + 3]]
        a = b = c = d = np.float32(0)
        for k in range(width):
            a += v0[k] * x[k]
            b += v1[k] * x[k]
            c += v2[k] * x[k]
            d += v3[k] * x[k]
        a = target * confidence[at] - (confidence[at] - one) * a
        b = target * confidence[at + 1] - (confidence[at + 1] - one) * b
        c = target * confidence[at + 2] - (confidence[at + 2] - one) * c
        d = target * confidence[at + 3] - (confidence[at + 3] - one) * d
        for k in range(width):
            sums[k] += (a * v0[k] + b * v1[k]) + (c * v2[k] + d * v3[k])
    for at in range(whole, last):
        v0 = others[indices[at]]
        a = np.float32(0)
        for k in range(width):
            a += v0[k] * x[k]
        a = target * confidence[at] - (confidence[at] - one) * a
        for k in range(width):
            sums[k] += a * v0[k]


@njit(cache=True, parallel=True, fastmath=True)
def _solve_rows(indptr, indices, confidence, side, others, spectrum, steps):  # type: ignore[no-untyped-def]
    """Conjugate gradient on (G + Σ (c − 1) v vᵀ) u = Σ c v for every row, G diagonal; work memory is a few vectors."""
    width = side.shape[1]
    for row in prange(side.shape[0]):
        first, last = indptr[row], indptr[row + 1]
        x = side[row]
        if first == last:
            x[:] = 0
            continue
        residual = np.empty(width, dtype=np.float32)
        image = np.empty(width, dtype=np.float32)
        for k in range(width):
            residual[k] = -spectrum[k] * x[k]
        _add_pairs(first, last, indices, confidence, others, x, np.float32(1), residual)
        direction = residual.copy()
        size = np.float32(0)
        for k in range(width):
            size += residual[k] * residual[k]
        for _ in range(steps):
            if size < 1e-20:
                break
            for k in range(width):
                image[k] = -spectrum[k] * direction[k]
            _add_pairs(first, last, indices, confidence, others, direction, np.float32(0), image)
            curvature = np.float32(0)
            for k in range(width):
                curvature -= direction[k] * image[k]
            length = size / curvature
            previous, size = size, np.float32(0)
            for k in range(width):
                x[k] += length * direction[k]
                residual[k] += length * image[k]
                size += residual[k] * residual[k]
            for k in range(width):
                direction[k] = residual[k] + size / previous * direction[k]
