# SPDX-License-Identifier: Apache-2.0
"""Propagate under autograd: by a polynomial of an operator, or exactly by a basis that is propagated once.

Where input rows are B · Θ with B sparse and Θ small, and the backbone is a polynomial P of its operator, the final
vectors are H = P(Â) B Θ = M Θ, and M is constant until the graph changes. Row-batches of M give row-batches of H.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from legcf.core.arrays import FloatArray, Positions
from legcf.core.files import reserve
from legcf.graph.basis_numba import columns_a_task, give_rows, take_rows
from legcf.graph.operator import Operator

_SPARSE_BELOW = 0.15  # share of non-zeros up to which a sparse product beats the dense one on two cores


class DenseBasis:
    """Hold nodes × blocks × c' numbers: after a few hops nearly everything reaches everything."""

    def __init__(self, values: FloatArray) -> None:
        self.values = torch.from_numpy(values)
        self._taken = self.values[:0]

    def times(self, theta: torch.Tensor) -> torch.Tensor:
        return (self.values @ theta).flatten(1)

    def rows_times(self, rows: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        # The batch's rows go into memory that is kept: new memory costs more than to copy them. The
        # gradient must be taken before the next batch; torch refuses it afterwards.
        if len(self._taken) < len(rows):
            self._taken = torch.empty((len(rows), *self.values.shape[1:]))
        taken = torch.index_select(self.values, 0, rows, out=self._taken[: len(rows)])
        return (taken @ theta).flatten(1)


class SparseBasis:
    """Hold M as CSR: after one hop a row holds little more than its neighbours' few weights."""

    def __init__(self, matrix: sp.csr_matrix) -> None:
        self.matrix = matrix

    def times(self, theta: torch.Tensor) -> torch.Tensor:
        return self.rows_times(torch.arange(self.matrix.shape[0]), theta)

    def rows_times(self, rows: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _SparseRows.apply(theta, self.matrix, rows.numpy())  # type: ignore[no-untyped-call]
        return result


Basis = DenseBasis | SparseBasis
"""M with H = M · Θ: `times` gives all rows of H, `rows_times` some, differentiable in Θ."""


def build_basis(
    operator: Operator,
    selection: sp.csr_matrix,
    coefficients: FloatArray,
    memory_cap_mb: float,
    spill: Path | None = None,
) -> Basis:
    """Make M for input rows `selection` · Θ, kept sparse where that is the smaller work."""
    if coefficients.shape == (1, 2):
        identity_share, hop_share = (float(value) for value in coefficients[0])
        matrix = operator.matrix @ selection * hop_share
        matrix = (matrix + selection * identity_share).tocsr() if identity_share else matrix.tocsr()
        if matrix.nnz < _SPARSE_BELOW * matrix.shape[0] * matrix.shape[1]:
            return SparseBasis(matrix.astype(np.float32))
    return DenseBasis(dense_basis(operator, selection, coefficients, memory_cap_mb, spill))


def dense_basis(
    operator: Operator,
    selection: sp.csr_matrix,
    coefficients: FloatArray,
    memory_cap_mb: float,
    spill: Path | None = None,
) -> FloatArray:
    """Return M with shape (nodes, blocks, c').

    Columns are independent, so they are propagated in groups that keep the work arrays within `memory_cap_mb`. A basis
    that is itself larger than the cap is kept in the file `spill` and mapped, never held in memory.
    """
    nodes, columns = selection.shape
    blocks = len(coefficients)
    shape = (nodes, blocks, columns)
    if blocks * nodes * columns * 4 > memory_cap_mb * 2**20 and spill is not None:
        spill.parent.mkdir(parents=True, exist_ok=True)
        result: FloatArray = np.lib.format.open_memmap(spill, mode="w+", dtype=np.float32, shape=shape)
        reserve(spill)
    else:
        result = np.empty(shape, dtype=np.float32)
    group = max(1, min(columns, int(memory_cap_mb * 2**20 / (4 * nodes * (3 + blocks)))))
    by_column = selection.tocsc()
    for start in range(0, columns, group):
        dense = by_column[:, start : start + group].toarray()
        width = dense.shape[1]
        result[:, :, start : start + width] = operator.polynomial(dense, coefficients).reshape(nodes, blocks, width)
    return result


class _SparseRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, theta, matrix, rows):  # type: ignore[no-untyped-def]
        ctx.matrix, ctx.rows, ctx.shape = matrix, rows, theta.shape
        result = np.empty((len(rows), theta.shape[1]), dtype=np.float32)
        take_rows(matrix.indptr, matrix.indices, matrix.data, rows, theta.detach().numpy(), result)
        return torch.from_numpy(result)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        result = np.zeros(ctx.shape, dtype=np.float32)
        matrix = ctx.matrix
        columns = columns_a_task(ctx.shape[1])
        give_rows(matrix.indptr, matrix.indices, matrix.data, ctx.rows, gradient.contiguous().numpy(), result, columns)
        return torch.from_numpy(result), None, None


class _Polynomial(torch.autograd.Function):
    """Keep no copies of the layers: backward needs the operator alone."""

    @staticmethod
    def forward(ctx, dense, operator, coefficients, rows):  # type: ignore[no-untyped-def]
        ctx.operator, ctx.coefficients, ctx.rows = operator, coefficients, rows
        return torch.from_numpy(operator.polynomial(dense.detach().numpy(), coefficients, rows))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        back = ctx.operator.adjoint_polynomial(gradient.contiguous().numpy(), ctx.coefficients, ctx.rows)
        return torch.from_numpy(back), None, None, None


def polynomial(
    operator: Operator, dense: torch.Tensor, coefficients: FloatArray, rows: Positions | None = None
) -> torch.Tensor:
    """Propagate rows of a linear backbone, differentiably; with `rows`, which are distinct, those alone."""
    result: torch.Tensor = _Polynomial.apply(dense, operator, coefficients, rows)  # type: ignore[no-untyped-call]
    return result
