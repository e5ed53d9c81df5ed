# SPDX-License-Identifier: Apache-2.0
"""Compiled losses against plain torch ones, value and gradient."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.config import TrainingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.training.losses import LOSSES
from legcf.training.registry import resolve
from legcf.training.sampler import Sampler, TrainingBatch
from tests.helpers import random_interactions


def plain_bpr(vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    users = vectors[batch.users][:, None]
    right = (users * vectors[batch.positives][:, None]).sum(-1)
    wrong = (users * vectors[batch.negatives]).sum(-1)
    return torch.nn.functional.softplus(wrong - right).mean()


def plain_softmax(vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    """A pair after the other, its own positive left out of the shared negatives."""
    each = []
    for user, positive in zip(batch.users, batch.positives, strict=True):
        others = [place for place in batch.negatives if place != positive]
        scores = vectors[[positive, *others]] @ vectors[user]
        each.append(torch.logsumexp(scores, 0) - scores[0])
    return torch.stack(each).mean()


def plain_squared(vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    scores = vectors[: batch.num_users] @ vectors[batch.num_users :].T
    wanted = torch.zeros_like(scores)
    wanted[batch.users, batch.positives - batch.num_users] = 1
    return (scores - wanted).square().sum() / batch.num_pairs


def plain_cosine(vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    return plain_softmax(vectors / vectors.norm(dim=1, keepdim=True), batch)


PLAIN = {"bpr": plain_bpr, "softmax": plain_softmax, "cosine": plain_cosine, "squared": plain_squared}


def first_batch(name: str, seed: int) -> TrainingBatch:
    train: Interactions = random_interactions(9, 12, 0.3, seed=seed)
    sampler = Sampler(train, TrainingConfig(batch_size=11, negatives=4), LOSSES[name].negatives)
    return next(sampler.epoch(np.random.default_rng(seed)))


def valued(function: object, vectors: torch.Tensor, batch: TrainingBatch) -> tuple[float, torch.Tensor]:
    leaf = vectors.clone().requires_grad_()
    loss = function(leaf, batch)  # type: ignore[operator]
    (3 * loss).backward()
    return loss.item(), leaf.grad


@pytest.mark.parametrize("name", sorted(LOSSES))
@given(seed=st.integers(0, 1000), width=st.sampled_from([1, 5, 33, 65]), scale=st.sampled_from([0.01, 1.0, 20.0]))
def test_value_and_gradient_are_those_of_the_plain_loss(name: str, seed: int, width: int, scale: float) -> None:
    batch = first_batch(name, seed)
    generator = torch.Generator().manual_seed(seed)
    vectors = scale * torch.randn(len(batch.entities), width, generator=generator) / width**0.5
    value, gradient = valued(LOSSES[name], vectors, batch)
    wanted, wanted_gradient = valued(PLAIN[name], vectors.double(), batch)
    assert value == pytest.approx(wanted, rel=2e-3, abs=1e-4)
    slack = 2e-3 * wanted_gradient.abs().max().item() + 1e-5 / scale  # of width 1, cosines have no gradient at all
    assert torch.allclose(gradient.double(), wanted_gradient, rtol=5e-3, atol=slack)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradient_by_finite_differences(name: str) -> None:
    batch = first_batch(name, 3)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(batch.entities), 6, generator=generator)
    direction = torch.randn(vectors.shape, generator=generator)
    _, gradient = valued(LOSSES[name], vectors, batch)
    step = 1e-2
    ahead, behind = (valued(LOSSES[name], vectors + sign * step * direction, batch)[0] for sign in (1, -1))
    assert 3 * (ahead - behind) / (2 * step) == pytest.approx((gradient * direction).sum().item(), rel=2e-2, abs=1e-2)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_numbering_of_entities_does_not_matter(name: str) -> None:
    if LOSSES[name].negatives == "none":
        pytest.skip("takes all entities, in their own order")
    batch = first_batch(name, 5)
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
    value, gradient = valued(LOSSES[name], vectors, batch)
    other, other_gradient = valued(LOSSES[name], shuffled, moved)
    assert value == pytest.approx(other, rel=1e-4)
    assert torch.allclose(other_gradient[torch.from_numpy(order)], gradient, atol=1e-5)


@pytest.mark.parametrize("name", ["bpr", "softmax"])
def test_scores_far_apart_stay_finite(name: str) -> None:
    batch = first_batch(name, 7)
    value, gradient = valued(LOSSES[name], 1e3 * torch.randn(len(batch.entities), 4), batch)
    assert np.isfinite(value)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_descending_the_gradient_lowers_the_loss(name: str) -> None:
    batch = first_batch(name, 9)
    vectors = torch.randn(len(batch.entities), 8, generator=torch.Generator().manual_seed(1))
    value, gradient = valued(LOSSES[name], vectors, batch)
    assert valued(LOSSES[name], vectors - 1e-3 * gradient, batch)[0] < value


@pytest.mark.parametrize("name", ["bpr", "softmax", "cosine"])
def test_a_temperature_divides_the_scores(name: str) -> None:
    batch = first_batch(name, 5)
    vectors = torch.randn(len(batch.entities), 6, generator=torch.Generator().manual_seed(2))
    if name == "cosine":
        vectors = torch.nn.functional.normalize(vectors)
    warm = LOSSES[name](vectors, batch, temperature=0.25)
    assert warm.item() == pytest.approx(
        PLAIN[name](2 * vectors, batch).item() if name != "cosine" else plain_softmax(2 * vectors, batch).item(),
        rel=1e-4,
    )


@pytest.mark.parametrize("setting", [{"edge_folds": 2}, {"leave_out": True}])
@pytest.mark.parametrize("name", ["squared", "all-at-once"])
def test_a_loss_of_all_pairs_at_once_is_refused_what_needs_batches(
    name: str, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the loss declares, not by its name: another package may bring one."""
    monkeypatch.setitem(LOSSES, "all-at-once", LOSSES["squared"])
    sentence = r"under `training` is not possible: .* a loss that takes pairs in batches\.$"
    with pytest.raises(UserError, match=sentence):
        resolve("full", overrides={"training": {"loss": name, **setting}})
    resolve("full", overrides={"training": {"loss": "bpr", **setting}})
