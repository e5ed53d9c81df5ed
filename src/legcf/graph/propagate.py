# SPDX-License-Identifier: Apache-2.0
"""Propagate rows under autograd: a polynomial of an operator times them."""

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


def polynomial(
    operator: Operator, dense: torch.Tensor, coefficients: FloatArray, rows: Positions | None = None
) -> torch.Tensor:
    """Propagate rows of a linear backbone, differentiably; with `rows`, which are distinct, those alone."""
    result: torch.Tensor = _Polynomial.apply(dense, operator, coefficients, rows)  # type: ignore[no-untyped-call]
    return result
