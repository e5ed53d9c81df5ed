# SPDX-License-Identifier: Apache-2.0
"""PEP's table: what a threshold does to an entry, what survives, and what is stored of it."""

from typing import Any, get_args

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf_studies.methods.sized.pep import Granularity, Pep, PepConfig
from tests.helpers import random_interactions

TRAIN = random_interactions(30, 20, 0.2, seed=0)


def made(**options: Any) -> Pep:
    layer = Pep(PepConfig(**{"dim": 6, "budget": 60, **options}), 30, 20)
    layer.initialise(TRAIN, np.random.default_rng(0))
    return layer


def with_logits(layer: Pep, value: float) -> Pep:
    layer.pruned.thresholds.data.fill_(value)
    return layer


@pytest.mark.parametrize("granularity", get_args(Granularity))
def test_thresholds_of_every_granularity_reach_the_whole_table(granularity: Granularity) -> None:
    layer = made(granularity=granularity)
    values = layer.pruned.values.detach()
    assert torch.equal(with_logits(layer, -1e4).table(), values)
    assert not with_logits(layer, 1e4).table().any()
    halved = with_logits(layer, -2.5).table()
    assert (halved.abs() <= values.abs()).all()
    assert (halved * values >= 0).all()
    halved.sum().backward()
    gradient = layer.pruned.thresholds.grad
    assert gradient is not None
    assert gradient.shape == layer.pruned.thresholds.shape
    assert gradient.any()


def test_sides_and_columns_have_thresholds_of_their_own() -> None:
    layer = made(granularity="field-dim")
    layer.pruned.thresholds.data.fill_(-1e4)
    layer.pruned.thresholds.data[1, 4] = 1e4
    gone = layer.table() == 0
    assert gone[30:, 4].all()
    assert gone.sum() == 20


def test_the_gradient_is_that_of_soft_thresholding() -> None:
    layer = with_logits(made(), -2.5)
    table = layer.table()
    table.sum().backward()
    values, gate = layer.pruned.values, torch.sigmoid(torch.tensor(-2.5))
    above = (values.abs() > gate).float()
    assert values.grad is not None
    assert layer.pruned.thresholds.grad is not None
    assert torch.equal(values.grad, above)
    assert torch.allclose(layer.pruned.thresholds.grad, -values.sign() * gate * (1 - gate) * above)


def test_an_entry_at_its_threshold_is_zero() -> None:
    layer = with_logits(made(), 0.0)
    layer.pruned.values.data.fill_(0.5)
    assert not layer.table().any()
    assert layer.num_params() == 0


def test_survivors_are_what_is_not_zero_or_else_the_largest() -> None:
    layer = with_logits(made(), -2.5)
    alive = layer.table() != 0
    assert torch.equal(layer.pruned.survivors(300), alive)
    fewer = layer.pruned.survivors(10)
    assert fewer.sum() == 10
    values = layer.pruned.values.detach().abs()
    assert values[fewer].min() >= values[~fewer].max()


def test_survivors_start_where_they_started_and_are_all_that_is_stored() -> None:
    layer = with_logits(made(), -2.5)
    first, mask = layer.pruned.first_values(), layer.table() != 0
    layer.pruned.values.data += 1
    layer.pruned.rewind(mask)
    assert torch.equal(layer.table(), first * mask)
    count = int(mask.sum())
    assert layer.num_params() == count
    assert layer.storage_bytes() == 4 * count + count + 50 + 8
    assert layer.total_trainable() == 2 * 50 * 6
    other = Pep(PepConfig(dim=6, budget=60), 30, 20)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.table(), layer.table())


def test_other_values_can_be_drawn_for_the_survivors() -> None:
    layer = made(reinitialise=True)
    first = layer.table().detach().clone()
    layer.pruned.rewind(torch.ones(50, 6, dtype=torch.bool))
    assert not torch.equal(layer.table(), first)


def test_the_budget_is_the_number_of_survivors() -> None:
    assert Pep.sized(PepConfig(budget="legcf", dim=128), 29_858, 40_981).max_entries == 205_678  # type: ignore[attr-defined]
    assert Pep.sized(PepConfig(budget=10**6, dim=2), 30, 20).max_entries == 100  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="more than the 100 entries"):
        Pep(PepConfig(max_entries=101, dim=2), 30, 20)


def test_thresholds_that_cannot_rise_are_refused() -> None:
    with pytest.raises(ValueError, match="above threshold_initial"):
        PepConfig(threshold_initial=1.0)
