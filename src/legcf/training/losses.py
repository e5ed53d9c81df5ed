"""Losses over the vectors of a batch. A new one is a function and one line in LOSSES.

Each takes H, the propagated vectors of the batch's distinct entities, and the batch, and returns a scalar.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit, prange

from legcf.training.sampler import Batch, Negatives

_COLUMNS_A_TASK = 32  # gradients are split by column, so threads never share a place and sums keep their order


class _BayesianPersonalisedRanking(torch.autograd.Function):
    """Value and gradient in one compiled pass; the batch's triplets never become tensors of their own."""

    @staticmethod
    def forward(ctx, vectors, users, positives, negatives):  # type: ignore[no-untyped-def]
        values = vectors.detach().numpy()
        slopes = np.empty(negatives.shape, dtype=np.float32)
        loss = _bpr_slopes(values, users, positives, negatives, slopes)
        gradient = np.zeros_like(values)
        _bpr_gradient(values, users, positives, negatives, slopes, gradient)
        ctx.gradient = torch.from_numpy(gradient)
        return vectors.new_tensor(loss)

    @staticmethod
    def backward(ctx, scale):  # type: ignore[no-untyped-def]
        return ctx.gradient * scale, None, None, None


def bpr(vectors: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Eq. 4 without its penalty: the mean of −ln σ(y_positive − y_negative) over all triplets."""
    result: torch.Tensor = _BayesianPersonalisedRanking.apply(  # type: ignore[no-untyped-call]
        vectors, batch.users, batch.positives, batch.negatives
    )
    return result


def softmax(vectors: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Sampled softmax on raw inner products: each pair's positive against the negatives that the batch shares.

    Vectors are not normalised, since their length carries popularity. A shared negative that is the pair's own
    positive is left out.
    """
    users = vectors[torch.from_numpy(batch.users)]
    positives = vectors[torch.from_numpy(batch.positives)]
    scores = users @ vectors[torch.from_numpy(batch.negatives)].T
    clash_row, clash_column = _clashes(batch)
    if clash_row.size:
        scores[torch.from_numpy(clash_row), torch.from_numpy(clash_column)] = -torch.inf
    right = (users * positives).sum(dim=1, keepdim=True)
    return (torch.logsumexp(torch.cat([right, scores], dim=1), dim=1) - right.squeeze(1)).mean()


def _clashes(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    column = np.full(len(batch.entities), -1, dtype=np.int64)
    column[batch.negatives] = np.arange(len(batch.negatives))
    rows = np.flatnonzero(column[batch.positives] >= 0)
    return rows, column[batch.positives[rows]]


@dataclass(frozen=True)
class Loss:
    function: Callable[[torch.Tensor, Batch], torch.Tensor]
    negatives: Negatives
    """What the sampler must draw for it."""


LOSSES: dict[str, Loss] = {
    "bpr": Loss(bpr, "each"),
    "softmax": Loss(softmax, "shared"),
}


@njit(cache=True, parallel=True, fastmath=True)
def _bpr_slopes(vectors, users, positives, negatives, slopes):  # type: ignore[no-untyped-def]
    pairs, count = negatives.shape
    losses = np.empty(pairs, dtype=np.float64)
    for row in prange(pairs):
        user = vectors[users[row]]
        right = np.float32(0)
        positive = vectors[positives[row]]
        for column in range(vectors.shape[1]):
            right += user[column] * positive[column]
        total = 0.0
        for place in range(count):
            negative = vectors[negatives[row, place]]
            wrong = np.float32(0)
            for column in range(vectors.shape[1]):
                wrong += user[column] * negative[column]
            margin = np.float64(right - wrong)
            # softplus(−margin) and its slope, written so that neither end overflows
            if margin > 0:
                small = np.exp(-margin)
                total += np.log1p(small)
                slopes[row, place] = small / (1 + small) / (pairs * count)
            else:
                small = np.exp(margin)
                total += np.log1p(small) - margin
                slopes[row, place] = 1 / (1 + small) / (pairs * count)
        losses[row] = total
    return losses.sum() / (pairs * count)


@njit(cache=True, parallel=True)
def _bpr_gradient(vectors, users, positives, negatives, slopes, gradient):  # type: ignore[no-untyped-def]
    pairs, count = negatives.shape
    width = vectors.shape[1]
    for task in prange(-(-width // _COLUMNS_A_TASK)):
        first, last = task * _COLUMNS_A_TASK, min((task + 1) * _COLUMNS_A_TASK, width)
        for row in range(pairs):
            user, positive = users[row], positives[row]
            for place in range(count):
                slope, negative = slopes[row, place], negatives[row, place]
                for column in range(first, last):
                    gradient[user, column] += slope * (vectors[negative, column] - vectors[positive, column])
                    gradient[positive, column] -= slope * vectors[user, column]
                    gradient[negative, column] += slope * vectors[user, column]
