# SPDX-License-Identifier: Apache-2.0
"""Check what every loss promises: a value whose gradient torch has, whatever order entities stand in."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from legcf.core.config import TrainingConfig
from legcf.testing.graphs import random_interactions
from legcf.training.learning.losses import LOSSES
from legcf.training.sampler import Sampler, TrainingBatch


def first_batch(name: str, seed: int) -> TrainingBatch:
    train = random_interactions(9, 12, 0.3, seed=seed)
    sampler = Sampler(train, TrainingConfig(batch_size=11, negatives=4), LOSSES[name].negatives)
    return next(sampler.epoch(np.random.default_rng(seed)))


def valued(
    function: Callable[..., torch.Tensor], vectors: torch.Tensor, batch: TrainingBatch
) -> tuple[float, torch.Tensor]:
    leaf = vectors.clone().requires_grad_()
    loss = function(leaf, batch)
    return loss.item(), torch.autograd.grad(3 * loss, leaf)[0]


class LossContract:
    """Inherit this and set `name` to the loss's."""

    name: ClassVar[str]

    @pytest.fixture
    def loss(self) -> str:
        return self.name

    def test_gradient_by_finite_differences(self, loss: str) -> None:
        batch = first_batch(loss, 3)
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(len(batch.entities), 6, generator=generator)
        direction = torch.randn(vectors.shape, generator=generator)
        _, gradient = valued(LOSSES[loss], vectors, batch)
        step = 1e-2
        ahead, behind = (valued(LOSSES[loss], vectors + sign * step * direction, batch)[0] for sign in (1, -1))
        slope = (gradient * direction).sum().item()
        assert 3 * (ahead - behind) / (2 * step) == pytest.approx(slope, rel=2e-2, abs=1e-2)

    def test_numbering_of_entities_does_not_matter(self, loss: str) -> None:
        if LOSSES[loss].negatives == "none":
            pytest.skip("takes all entities, in their own order")
        batch = first_batch(loss, 5)
        order = np.random.default_rng(0).permutation(len(batch.entities))
        moved = replace(
            batch,
            entities=batch.entities[np.argsort(order)],
            users=order[batch.users],
            positives=order[batch.positives],
            negatives=order[batch.negatives],
        )
        vectors = torch.randn(len(order), 8)
        shuffled = torch.empty_like(vectors)
        shuffled[torch.from_numpy(order)] = vectors
        value, gradient = valued(LOSSES[loss], vectors, batch)
        other, other_gradient = valued(LOSSES[loss], shuffled, moved)
        assert value == pytest.approx(other, rel=1e-4)
        assert torch.allclose(other_gradient[torch.from_numpy(order)], gradient, atol=1e-5)

    def test_descending_the_gradient_lowers_the_loss(self, loss: str) -> None:
        batch = first_batch(loss, 9)
        vectors = torch.randn(len(batch.entities), 8, generator=torch.Generator().manual_seed(1))
        value, gradient = valued(LOSSES[loss], vectors, batch)
        assert valued(LOSSES[loss], vectors - 1e-3 * gradient, batch)[0] < value
