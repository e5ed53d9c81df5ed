# SPDX-License-Identifier: Apache-2.0
"""Compose rows of weighted meta-embeddings, and the gradient of these; torch's own is slow at small codebooks."""

from typing import Any

import numpy as np
import torch

from legcf.core.jit import njit, prange
from legcf.embeddings.legcf_codes import compose_rows

_COLUMNS = 32  # of a codebook that one thread adds up: two cache lines


class _Composed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codebook: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(indices, weights)
        ctx.size = len(codebook)
        result = np.zeros((len(indices), codebook.shape[1]), dtype=np.float32)
        compose_rows(indices.numpy(), weights.numpy(), codebook.detach().numpy(), result)
        return torch.from_numpy(result)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        indices, weights = ctx.saved_tensors
        result = np.zeros((ctx.size, gradient.shape[1]), dtype=np.float32)
        _collect(indices.numpy(), weights.numpy(), gradient.contiguous().numpy(), result)
        return torch.from_numpy(result), None, None


def composed(codebook: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return Σ_j weights[:, j] · codebook[indices[:, j]], differentiable in the codebook."""
    result: torch.Tensor = _Composed.apply(codebook, indices, weights)  # type: ignore[no-untyped-call]
    return result


@njit(cache=True, parallel=True, fastmath=True)
def _collect(indices, weights, gradient, result):  # type: ignore[no-untyped-def]
    width = gradient.shape[1]
    for task in prange(-(-width // _COLUMNS)):
        first, last = task * _COLUMNS, min((task + 1) * _COLUMNS, width)
        for row in range(len(indices)):
            source = gradient[row, first:last]
            for number in range(indices.shape[1]):
                weight, out = weights[row, number], result[indices[row, number], first:last]
                for column in range(last - first):
                    out[column] += weight * source[column]
