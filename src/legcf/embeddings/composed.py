# SPDX-License-Identifier: Apache-2.0
"""Compose rows of weighted meta-embeddings, and the gradient of these; torch's own is slow at small codebooks."""

from typing import Any

import numpy as np
import torch

from legcf.embeddings.legcf_codes import compose_rows
from legcf.graph.basis_numba import columns_a_task, give_rows


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
        indices, weights = (tensor.numpy() for tensor in ctx.saved_tensors)
        result = np.zeros((ctx.size, gradient.shape[1]), dtype=np.float32)
        indptr, rows = np.arange(0, indices.size + 1, indices.shape[1]), np.arange(len(indices))
        columns = columns_a_task(gradient.shape[1])
        give_rows(indptr, indices.ravel(), weights.ravel(), rows, gradient.contiguous().numpy(), result, columns)
        return torch.from_numpy(result), None, None


def composed(codebook: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return Σ_j weights[:, j] · codebook[indices[:, j]], differentiable in the codebook."""
    result: torch.Tensor = _Composed.apply(codebook, indices, weights)  # type: ignore[no-untyped-call]
    return result
