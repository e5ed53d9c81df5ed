"""Propagation: one compiled sparse product, and polynomials of it under autograd.

Every linear backbone is a polynomial of its operator Â: block b of H is Σ_l coefficients[b, l] · Â^l · E0, and H is
the blocks side by side. LightGCN has one block (the layer mean), a concatenating readout has one block a layer.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
_CHUNKS = 64  # pieces of equal edges that the threads share, so that hubs do not leave one of them waiting


class Operator:
    """A sparse matrix as propagation uses it; `transposed` is itself when it is symmetric."""

    def __init__(self, matrix: sp.csr_matrix, symmetric: bool) -> None:
        self.matrix = matrix
        self.symmetric = symmetric
        edges = np.linspace(0, matrix.nnz, _CHUNKS + 1)
        self._bounds = np.searchsorted(matrix.indptr, edges).astype(np.int64)
        self._bounds[0], self._bounds[-1] = 0, matrix.shape[0]

    @cached_property
    def transposed(self) -> "Operator":
        return self if self.symmetric else Operator(self.matrix.T.tocsr(), False)

    @cached_property
    def _turned(self) -> sp.csr_matrix:
        """The transposed matrix with, in place of its weights, where each of them stands in this one."""
        places = np.arange(self.matrix.nnz, dtype=self.matrix.indices.dtype)
        return sp.csr_matrix((places, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape).T.tocsr()

    def reweighted(self, weights: FloatArray) -> "Operator":
        """The same edges with other weights; only the weights are new, all indices are shared."""
        matrix, turned = self.matrix, self._turned
        result, back = (
            Operator(sp.csr_matrix((data, of.indices, of.indptr), shape=of.shape, copy=False), False)
            for data, of in ((weights, matrix), (weights[turned.data], turned))
        )
        result.transposed = back
        return result

    def times(self, dense: FloatArray, out: FloatArray | None = None) -> FloatArray:
        result = np.empty((self.matrix.shape[0], dense.shape[1]), dtype=np.float32) if out is None else out
        matrix = self.matrix
        _multiply(matrix.indptr, matrix.indices, matrix.data, self._bounds, np.ascontiguousarray(dense), result)
        return result

    def polynomial(self, dense: FloatArray, coefficients: FloatArray) -> FloatArray:
        """The blocks Σ_l coefficients[b, l] · Â^l · dense side by side, with two work arrays whatever the depth."""
        blocks, terms = coefficients.shape
        width = dense.shape[1]
        result = np.zeros((self.matrix.shape[0], blocks * width), dtype=np.float32)
        power, spare = np.ascontiguousarray(dense, dtype=np.float32), None
        for term in range(terms):
            if term:
                product = self.times(power, spare)
                spare, power = (power if term > 1 else None), product
            for block in range(blocks):
                if coefficients[block, term] != 0:
                    _add_scaled(result, power, coefficients[block, term], block * width)
        return result

    def adjoint_polynomial(self, gradient: FloatArray, coefficients: FloatArray) -> FloatArray:
        """The transpose of `polynomial`, by Horner's rule: one product a layer."""
        blocks, terms = coefficients.shape
        width = gradient.shape[1] // blocks
        result = np.zeros((self.matrix.shape[1], width), dtype=np.float32)
        for term in range(terms - 1, -1, -1):
            if term < terms - 1:
                result = self.transposed.times(result)
            for block in range(blocks):
                if coefficients[block, term] != 0:
                    result += coefficients[block, term] * gradient[:, block * width : (block + 1) * width]
        return result


class _Polynomial(torch.autograd.Function):
    """Backward needs the operator alone, so no copies of the layers are kept."""

    @staticmethod
    def forward(ctx, rows, operator, coefficients):  # type: ignore[no-untyped-def]
        ctx.operator, ctx.coefficients = operator, coefficients
        return torch.from_numpy(operator.polynomial(rows.detach().numpy(), coefficients))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        back = ctx.operator.adjoint_polynomial(gradient.contiguous().numpy(), ctx.coefficients)
        return torch.from_numpy(back), None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, operator):  # type: ignore[no-untyped-def]
        ctx.operator = operator
        return torch.from_numpy(operator.times(rows.detach().numpy()))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return torch.from_numpy(ctx.operator.transposed.times(gradient.contiguous().numpy())), None


def polynomial(operator: Operator, rows: torch.Tensor, coefficients: FloatArray) -> torch.Tensor:
    """Differentiable propagation of a linear backbone."""
    result: torch.Tensor = _Polynomial.apply(rows, operator, coefficients)  # type: ignore[no-untyped-call]
    return result


def product(operator: Operator, rows: torch.Tensor) -> torch.Tensor:
    """One differentiable sparse product, for backbones that are not linear."""
    result: torch.Tensor = _Product.apply(rows, operator)  # type: ignore[no-untyped-call]
    return result


@njit(cache=True, parallel=True, fastmath=True)
def _multiply(indptr, indices, data, bounds, dense, result):  # type: ignore[no-untyped-def]
    width = dense.shape[1]
    for chunk in prange(len(bounds) - 1):
        for row in range(bounds[chunk], bounds[chunk + 1]):
            out = result[row]
            out[:] = 0
            for edge in range(indptr[row], indptr[row + 1]):
                weight = data[edge]
                source = dense[indices[edge]]
                for column in range(width):
                    out[column] += weight * source[column]


@njit(cache=True, parallel=True)
def _add_scaled(result, rows, scale, offset):  # type: ignore[no-untyped-def]
    for row in prange(rows.shape[0]):
        for column in range(rows.shape[1]):
            result[row, offset + column] += scale * rows[row, column]
