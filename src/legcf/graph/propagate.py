# SPDX-License-Identifier: Apache-2.0
"""Propagate rows under autograd: one product with an operator, or a polynomial of it."""

import torch

from legcf.core.arrays import FloatArray, Positions
from legcf.graph.operator import Operator


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


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dense, operator, rows):  # type: ignore[no-untyped-def]
        ctx.operator, ctx.rows = operator, rows
        dense = dense.detach().numpy()
        return torch.from_numpy(operator.times(dense) if rows is None else operator.times_at(rows, dense))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        back, gradient = ctx.operator.transposed, gradient.contiguous().numpy()
        moved = back.times(gradient) if ctx.rows is None else back.times_from(ctx.rows, gradient)
        return torch.from_numpy(moved), None, None


def polynomial(
    operator: Operator, dense: torch.Tensor, coefficients: FloatArray, rows: Positions | None = None
) -> torch.Tensor:
    """Propagate rows of a linear backbone, differentiably; with `rows`, which are distinct, those alone."""
    result: torch.Tensor = _Polynomial.apply(dense, operator, coefficients, rows)  # type: ignore[no-untyped-call]
    return result


def product(operator: Operator, dense: torch.Tensor, rows: Positions | None = None) -> torch.Tensor:
    """Return one differentiable product, for backbones that are not linear; with distinct `rows`, those alone."""
    result: torch.Tensor = _Product.apply(dense, operator, rows)  # type: ignore[no-untyped-call]
    return result
