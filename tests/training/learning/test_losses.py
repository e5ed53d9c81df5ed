# SPDX-License-Identifier: Apache-2.0
"""Compiled losses against plain torch ones, value and gradient."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.testing.losses import LossContract, first_batch, valued
from legcf.training.learning.losses import LOSSES
from legcf.training.registry import resolve
from legcf.training.sampler import TrainingBatch


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


@pytest.mark.parametrize("loss", sorted(LOSSES))
class TestLosses(LossContract):
    pass


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


@pytest.mark.parametrize("name", ["bpr", "softmax"])
def test_scores_far_apart_stay_finite(name: str) -> None:
    batch = first_batch(name, 7)
    value, gradient = valued(LOSSES[name], 1e3 * torch.randn(len(batch.entities), 4), batch)
    assert np.isfinite(value)
    assert torch.isfinite(gradient).all()


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


@pytest.mark.parametrize("setting", [{"edge_folds": 2}, {"exclude_target": True}])
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
