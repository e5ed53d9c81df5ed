# SPDX-License-Identifier: Apache-2.0
"""Compute losses over the vectors of a batch, and the penalty of Eq. 4. A new loss is a function and a line in LOSSES.

A loss takes H, the propagated vectors of the batch's distinct entities, the batch, and the weight of negatives, and
returns a scalar that torch can differentiate. Those here find value and gradient together in one pass over the batch
(`with_gradient`), so autograd keeps nothing of it; a new one need not.
Scores are inner products, divided by a temperature; `cosine` is the softmax of directions alone. Ranking uses plain
inner products after any of them: what lengths a direction-only loss leaves come from the graph (Wu et al., TOIS 2024).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from legcf.core.config import TrainingConfig
from legcf.core.errors import UserError
from legcf.core.jit import njit, prange
from legcf.core.plugins import Registry
from legcf.graph.basis_numba import columns_a_task
from legcf.graph.operator import Operator
from legcf.training.learning.softmax import clashes_of, softmax_gradient
from legcf.training.model import GraphModel
from legcf.training.sampler import Negatives, TrainingBatch

Function = Callable[[torch.Tensor, TrainingBatch, float], torch.Tensor]
ValueAndGradient = Callable[[torch.Tensor, TrainingBatch, float], tuple[float, torch.Tensor]]


class _Known(torch.autograd.Function):
    """Return a value to autograd whose gradient was computed along with it."""

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, value: float, gradient: torch.Tensor) -> Any:
        ctx.gradient = gradient
        return vectors.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *scale: Any) -> Any:
        return ctx.gradient * scale[0], None, None


def with_gradient(function: ValueAndGradient) -> Function:
    """Make a differentiable loss of a function that returns its gradient along with its value."""

    def loss(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> torch.Tensor:
        known = function(vectors.detach(), batch, negative_weight)
        result: torch.Tensor = _Known.apply(vectors, *known)  # type: ignore[no-untyped-call]
        return result

    return loss


@with_gradient
def bpr(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> tuple[float, torch.Tensor]:
    """Compute Eq. 4 without its penalty: the mean of −ln σ(y_positive − y_negative) over all triplets.

    A negative weight w other than 1 makes it ln(1 + w · exp(y_negative − y_positive)).
    """
    values = vectors.numpy()
    slopes = np.empty(batch.negatives.shape, dtype=np.float32)
    offset = float(np.log(negative_weight))
    value = _bpr_slopes(values, batch.users, batch.positives, batch.negatives, batch.weights, offset, slopes)
    gradient = np.zeros_like(values)
    columns = columns_a_task(values.shape[1])
    _bpr_gradient(values, batch.users, batch.positives, batch.negatives, slopes, gradient, columns)
    return value, torch.from_numpy(gradient)


@with_gradient
def softmax(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> tuple[float, torch.Tensor]:
    """Compute the sampled softmax of inner products: each pair's positive against the negatives that the batch shares.

    It is the mean of −ln(e^y / (e^y + w Σ e^y_negative)). Vectors are not normalised: their length carries popularity.
    A shared negative that is the pair's own positive is left out.
    """
    values = vectors.numpy()
    parts = (batch.users, batch.positives, batch.negatives)
    clashes = clashes_of(batch.positives, batch.negatives, len(values))
    users, positives, negatives = (values[rows] for rows in parts)
    found = softmax_gradient(users, positives, negatives, clashes, batch.weights, negative_weight)
    gradient = torch.zeros_like(vectors)
    for rows, values in zip(parts, (found.users, found.positives, found.negatives), strict=True):
        gradient.index_add_(0, torch.from_numpy(rows), torch.from_numpy(values))
    return found.value, gradient


@with_gradient
def squared(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> tuple[float, torch.Tensor]:
    """Compute Σ_pairs w (1 − y)² + w₀ Σ_others y², per pair, over all users and items and without sampling.

    The sum over everything is ⟨UᵀU, VᵀV⟩, two d × d Gram matrices; the pairs themselves then only need a correction.
    """
    values = vectors.numpy()
    num_users = batch.num_users
    users, items = values[:num_users], values[num_users:]
    scores = _pair_scores(values, batch.users, batch.positives)
    weights, rest = batch.weights, np.float32(negative_weight)
    user_gram, item_gram = users.T @ users, items.T @ items
    everything = float(np.vdot(user_gram.astype(np.float64), item_gram.astype(np.float64)))
    count = len(scores)
    value = (float((weights * (1 - scores) ** 2 - rest * scores**2).sum(dtype=np.float64)) + rest * everything) / count
    slopes = (2 / count) * (weights * (scores - 1) - rest * scores)
    pairs = sp.csr_matrix((slopes, (batch.users, batch.positives - num_users)), shape=(len(users), len(items)))
    of_users = Operator(pairs, symmetric=False)
    gradient = np.empty_like(values)
    gradient[:num_users] = of_users.times(items) + (2 * rest / count) * (users @ item_gram)
    gradient[num_users:] = of_users.transposed.times(users) + (2 * rest / count) * (items @ user_gram)
    return float(value), torch.from_numpy(gradient)


@dataclass(frozen=True)
class Loss:
    """Hold a loss function and what it asks of the batch."""

    function: Function
    negatives: Negatives
    """What the sampler must draw for it."""
    of_directions: bool = False
    """Whether vectors are brought to length 1 first, so that scores are cosines."""

    def __call__(
        self, vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float = 1.0, temperature: float = 1.0
    ) -> torch.Tensor:
        return self.function(self.scaled(vectors, temperature), batch, negative_weight)

    def scaled(self, vectors: torch.Tensor, temperature: float) -> torch.Tensor:
        """Return vectors whose inner products are the scores that the loss compares."""
        if self.of_directions:
            vectors = torch.nn.functional.normalize(vectors)
        return vectors if temperature == 1 else vectors * temperature**-0.5


LOSSES: Registry[Loss] = Registry(
    "loss",
    "legcf.losses",
    lambda part: isinstance(part, Loss),
    {
        "bpr": Loss(bpr, "each"),
        "softmax": Loss(softmax, "shared"),
        "cosine": Loss(softmax, "shared", of_directions=True),
        "squared": Loss(squared, "none"),
    },
)


def check_loss(training: TrainingConfig) -> None:
    """Refuse an unknown loss, or one that the other settings do not go with."""
    if training.loss not in LOSSES:
        raise UserError(f"training.loss = {training.loss!r} is not one of {', '.join(sorted(LOSSES))}.")
    check_batches(training)


def check_batches(training: TrainingConfig) -> None:
    """Refuse settings that need batches beside a loss that takes all pairs at once."""
    loss = LOSSES.get(training.loss)
    if loss is None or loss.negatives != "none" or not (training.edge_folds or training.exclude_target):
        return
    needs = "edge_folds needs order = interaction and" if training.edge_folds else "exclude_target needs"
    raise UserError(f"What is set under `training` is not possible: {needs} a loss that takes pairs in batches.")


def without_own_pair(
    model: GraphModel, vectors: torch.Tensor, entities: torch.Tensor, batch: TrainingBatch
) -> tuple[torch.Tensor, TrainingBatch]:
    """Give every pair a user vector of its own that does not contain the pair."""
    users, positives = torch.from_numpy(batch.users), torch.from_numpy(batch.positives)
    own = model.backbone.without_pairs(vectors, entities, users, positives)
    if own is None:
        raise UserError(
            f"Backbone {model.backbone.config.name} cannot do training.exclude_target; use training.edge_folds instead."
        )
    own_rows = np.arange(len(vectors), len(vectors) + batch.num_pairs)
    return torch.cat([vectors, own]), replace(batch, users=own_rows)


def squared_norms(
    model: GraphModel,
    of: str,
    batch: TrainingBatch,
    entities: torch.Tensor,
    encoded: torch.Tensor,
    travelled: torch.Tensor | None,
) -> torch.Tensor:
    """Compute ‖Θ‖² of Eq. 4: of the layer's parameters, or per triplet of input rows (`travelled`) or final vectors."""
    if of == "parameters":
        return torch.stack([parameter.square().sum() for parameter in model.layer.parameters()]).sum()
    each = batch.negatives.shape[1] if batch.negatives.ndim == 2 else 1
    parts = (batch.users, batch.positives, batch.negatives.ravel())
    users, positives, negatives = (np.bincount(part, minlength=len(entities)) for part in parts)
    counts = each * (users + positives) + negatives
    if of == "final":
        penalised = encoded if model.layer.item_bias is None else encoded[:, :-1]
    else:
        penalised = model.layer.rows(entities) if travelled is None else travelled.index_select(0, entities)
    norms = penalised.square().sum(dim=1)
    return norms @ torch.from_numpy(counts.astype(np.float32)) / (batch.num_pairs * each)


@njit(cache=True, parallel=True, fastmath=True)
def _bpr_slopes(vectors, users, positives, negatives, weights, offset, slopes):  # type: ignore[no-untyped-def]
    pairs, count = negatives.shape
    losses = np.empty(pairs, dtype=np.float64)
    for row in prange(pairs):
        user = vectors[users[row]]
        right = np.float32(0)
        positive = vectors[positives[row]]
        for column in range(vectors.shape[1]):
            right += user[column] * positive[column]
        share = weights[row] / (pairs * count)
        total = 0.0
        for number in range(count):
            negative = vectors[negatives[row, number]]
            wrong = np.float32(0)
            for column in range(vectors.shape[1]):
                wrong += user[column] * negative[column]
            margin = np.float64(right - wrong) - offset
            # softplus(−margin) and its slope, written so that neither end overflows
            if margin > 0:
                small = np.exp(-margin)
                total += np.log1p(small)
                slopes[row, number] = share * small / (1 + small)
            else:
                small = np.exp(margin)
                total += np.log1p(small) - margin
                slopes[row, number] = share / (1 + small)
        losses[row] = total * share
    return losses.sum()


@njit(cache=True, parallel=True)
def _bpr_gradient(vectors, users, positives, negatives, slopes, gradient, wide):  # type: ignore[no-untyped-def]
    """Add gradients, in tasks of `wide` columns; that of a pair's user is summed over its negatives first."""
    pairs, count = negatives.shape
    width = vectors.shape[1]
    for task in prange(-(-width // wide)):
        first, last = task * wide, min((task + 1) * wide, width)
        towards = np.empty(last - first, dtype=np.float32)
        for row in range(pairs):
            user, positive = vectors[users[row], first:last], vectors[positives[row], first:last]
            towards[:] = 0
            steepness = np.float32(0)
            for number in range(count):
                slope = slopes[row, number]
                steepness += slope
                negative = vectors[negatives[row, number], first:last]
                back = gradient[negatives[row, number], first:last]
                for column in range(last - first):
                    towards[column] += slope * negative[column]
                    back[column] += slope * user[column]
            of_user, of_positive = gradient[users[row], first:last], gradient[positives[row], first:last]
            for column in range(last - first):
                of_user[column] += towards[column] - steepness * positive[column]
                of_positive[column] -= steepness * user[column]


@njit(cache=True, parallel=True, fastmath=True)
def _pair_scores(vectors, users, positives):  # type: ignore[no-untyped-def]
    scores = np.empty(len(users), dtype=np.float32)
    for pair in prange(len(users)):
        total = np.float32(0)
        for column in range(vectors.shape[1]):
            total += vectors[users[pair], column] * vectors[positives[pair], column]
        scores[pair] = total
    return scores
