"""Propagation: one compiled sparse product, polynomials of it under autograd, and the propagated basis.

Every linear backbone is a polynomial of its operator Â: block b of H is Σ_l coefficients[b, l] · Â^l · E0, and H is
the blocks side by side. LightGCN has one block (the layer mean), a concatenating readout has one block a layer.
"""

from functools import cached_property
from pathlib import Path

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


def basis(
    operator: Operator,
    selection: sp.csr_matrix,
    coefficients: FloatArray,
    memory_cap_mb: float,
    spill_folder: Path | None = None,
) -> FloatArray:
    """The propagated basis M with shape (nodes, blocks, c'): H = M · Θ for input rows `selection` · Θ.

    Columns are independent, so they are propagated in groups that keep the work arrays within `memory_cap_mb`. A basis
    that is itself larger than the cap is kept in a file under `spill_folder` and mapped, never held in memory.
    """
    nodes, columns = selection.shape
    blocks = len(coefficients)
    shape = (nodes, blocks, columns)
    if blocks * nodes * columns * 4 > memory_cap_mb * 2**20 and spill_folder is not None:
        spill_folder.mkdir(parents=True, exist_ok=True)
        result: FloatArray = np.lib.format.open_memmap(
            spill_folder / "basis.npy", mode="w+", dtype=np.float32, shape=shape
        )
    else:
        result = np.empty(shape, dtype=np.float32)
    group = max(1, min(columns, int(memory_cap_mb * 2**20 / (4 * nodes * (3 + blocks)))))
    by_column = selection.tocsc()
    for start in range(0, columns, group):
        dense = by_column[:, start : start + group].toarray()
        width = dense.shape[1]
        result[:, :, start : start + width] = operator.polynomial(dense, coefficients).reshape(nodes, blocks, width)
    return result


def basis_rows(
    operator: Operator, selection: sp.csr_matrix, coefficients: FloatArray, rows: NDArray[np.integer]
) -> FloatArray:
    """Chosen rows of the basis alone, without the others: propagate the rows' indicators backwards."""
    indicators = np.zeros((operator.matrix.shape[0], len(rows)), dtype=np.float32)
    indicators[rows, np.arange(len(rows))] = 1
    blocks = [
        operator.adjoint_polynomial(indicators, coefficients[block : block + 1]).T @ selection
        for block in range(len(coefficients))
    ]
    return np.stack(blocks, axis=1).astype(np.float32)


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
