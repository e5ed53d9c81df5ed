# SPDX-License-Identifier: Apache-2.0
"""Multiply rows by a sparse matrix, compiled, and by polynomials of it; `basis` does so under autograd.

Every linear backbone is a polynomial of its operator Â: block b of H is Σ_l coefficients[b, l] · Â^l · E0, and H is
the blocks side by side. LightGCN has one block (the layer mean), a concatenating readout has one block a layer.

A batch asks for few rows of H. The last product is then made for those rows alone, and in the backward pass the first
one reads nothing but them: of 2L products 2L − 2 are whole.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from legcf.core.arrays import FloatArray, Positions
from legcf.core.jit import njit, prange

_CHUNKS = 64  # pieces of equal edges that the threads share, so that hubs do not leave one of them waiting


class Operator:
    """Hold a sparse matrix as propagation uses it; `transposed` is itself when it is symmetric."""

    def __init__(self, matrix: sp.csr_matrix, symmetric: bool) -> None:
        self.matrix = matrix
        self.symmetric = symmetric
        edges = np.linspace(0, matrix.nnz, _CHUNKS + 1)
        self._bounds = np.searchsorted(matrix.indptr, edges).astype(np.int64)
        self._bounds[0], self._bounds[-1] = 0, matrix.shape[0]

    @cached_property
    def transposed(self) -> "Operator":
        return self if self.symmetric else Operator(self.matrix.T.tocsr(), False)

    def times(self, dense: FloatArray, out: FloatArray | None = None) -> FloatArray:
        result = np.empty((self.matrix.shape[0], dense.shape[1]), dtype=np.float32) if out is None else out
        matrix = self.matrix
        _multiply(matrix.indptr, matrix.indices, matrix.data, self._bounds, np.ascontiguousarray(dense), result)
        return result

    def times_at(self, rows: Positions, dense: FloatArray) -> FloatArray:
        """Return some rows of the product."""
        matrix = self.matrix
        result = np.empty((len(rows), dense.shape[1]), dtype=np.float32)
        edges = np.cumsum(np.diff(matrix.indptr)[rows])
        bounds = np.searchsorted(edges, np.linspace(0, edges[-1] if len(edges) else 0, _CHUNKS + 1)[1:-1])
        bounds = np.concatenate([[0], bounds, [len(rows)]])
        _multiply_at(rows, matrix.indptr, matrix.indices, matrix.data, bounds, np.ascontiguousarray(dense), result)
        return result

    def times_from(self, rows: Positions, dense: FloatArray) -> FloatArray:
        """Return the product with a matrix that is `dense` in `rows`, which are distinct, and zero in all others."""
        matrix = self.matrix
        position = np.full(matrix.shape[1], -1, dtype=np.int32)
        position[rows] = np.arange(len(rows), dtype=np.int32)
        result = np.empty((matrix.shape[0], dense.shape[1]), dtype=np.float32)
        dense = np.ascontiguousarray(dense)
        _multiply_from(position, matrix.indptr, matrix.indices, matrix.data, self._bounds, dense, result)
        return result

    def polynomial(self, dense: FloatArray, coefficients: FloatArray, rows: Positions | None = None) -> FloatArray:
        """Return the blocks Σ_l coefficients[b, l] · Â^l · dense side by side, with two work arrays whatever the depth.

        With `rows`, those rows of it alone.
        """
        blocks, terms = coefficients.shape
        width = dense.shape[1]
        result = np.zeros((self.matrix.shape[0] if rows is None else len(rows), blocks * width), dtype=np.float32)
        power, spare = np.ascontiguousarray(dense, dtype=np.float32), None
        for term in range(terms):
            if term and rows is not None and term == terms - 1:
                power = self.times_at(rows, power)
            elif term:
                product = self.times(power, spare)
                spare, power = (power if term > 1 else None), product
            whole = rows is None or (term and term == terms - 1)
            for block in np.flatnonzero(coefficients[:, term]):
                if whole:
                    _add_scaled(result, power, coefficients[block, term], block * width)
                else:
                    result[:, block * width : (block + 1) * width] += coefficients[block, term] * power[rows]
        return result

    def adjoint_polynomial(
        self, gradient: FloatArray, coefficients: FloatArray, rows: Positions | None = None
    ) -> FloatArray:
        """Apply the transpose of `polynomial`, by Horner's rule: one product a layer."""
        blocks, terms = coefficients.shape
        width = gradient.shape[1] // blocks
        last = _combined(gradient, coefficients[:, -1], width)
        if rows is None:
            result = last
        elif terms == 1:
            result = np.zeros((self.matrix.shape[1], width), dtype=np.float32)
            result[rows] = last
            return result
        for term in range(terms - 2, -1, -1):
            if rows is not None and term == terms - 2:
                result = self.transposed.times_from(rows, last)
            else:
                result = self.transposed.times(result)
            for block in np.flatnonzero(coefficients[:, term]):
                part = gradient[:, block * width : (block + 1) * width]
                if rows is None:
                    _add_scaled(result, part, coefficients[block, term], 0)
                else:
                    result[rows] += coefficients[block, term] * part
        return result


def _combined(gradient: FloatArray, coefficients: FloatArray, width: int) -> FloatArray:
    """Return Σ_b coefficients[b] · block b."""
    if len(coefficients) == 1:
        scaled: FloatArray = gradient * coefficients[0]
        return scaled
    total = np.zeros((len(gradient), width), dtype=np.float32)
    for block, coefficient in enumerate(coefficients):
        if coefficient != 0:
            total += coefficient * gradient[:, block * width : (block + 1) * width]
    return total


# Four edges at a time: four rows are fetched at once, and a sum goes to memory once for four.


@njit(cache=True, fastmath=True, inline="always")
def _sum_of_row(start, end, indices, data, dense, out):  # type: ignore[no-untyped-def]
    width = dense.shape[1]
    out[:] = 0
    whole = start + (end - start) // 4 * 4
    for edge in range(start, whole, 4):
        a, b, c, d = data[edge], data[edge + 1], data[edge + 2], data[edge + 3]
        first, second = dense[indices[edge]], dense[indices[edge + 1]]
        third, fourth = dense[indices[edge + 2]], dense[indices[edge + 3]]
        for column in range(width):
            out[column] += (a * first[column] + b * second[column]) + (c * third[column] + d * fourth[column])
    for edge in range(whole, end):
        a, first = data[edge], dense[indices[edge]]
        for column in range(width):
            out[column] += a * first[column]


@njit(cache=True, parallel=True, fastmath=True)
def _multiply(indptr, indices, data, bounds, dense, result):  # type: ignore[no-untyped-def]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            _sum_of_row(indptr[row], indptr[row + 1], indices, data, dense, result[row])


@njit(cache=True, parallel=True, fastmath=True)
def _multiply_at(rows, indptr, indices, data, bounds, dense, result):  # type: ignore[no-untyped-def]
    for chunk in prange(len(bounds) - 1):
        for position in range(bounds[chunk], bounds[chunk + 1]):
            row = rows[position]
            _sum_of_row(indptr[row], indptr[row + 1], indices, data, dense, result[position])


@njit(cache=True, parallel=True, fastmath=True)
def _multiply_from(position, indptr, indices, data, bounds, dense, result):  # type: ignore[no-untyped-def]
    width = dense.shape[1]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            out = result[row]
            out[:] = 0
            for edge in range(indptr[row], indptr[row + 1]):
                where = position[indices[edge]]
                if where >= 0:
                    weight, source = data[edge], dense[where]
                    for column in range(width):
                        out[column] += weight * source[column]


@njit(cache=True, parallel=True)
def _add_scaled(result, rows, scale, offset):  # type: ignore[no-untyped-def]
    for row in prange(rows.shape[0]):
        for column in range(rows.shape[1]):
            result[row, offset + column] += scale * rows[row, column]
