# SPDX-License-Identifier: Apache-2.0
"""OptEmbed: the masks, the step's surrogate, and what is counted."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.sized.optembed import OptEmbed, OptEmbedConfig, step, surrogate_slope
from tests.helpers import interactions


def made(users: int = 3, items: int = 2, **options: Any) -> OptEmbed:
    layer = OptEmbed(OptEmbedConfig(**{"dim": 4, **options}), users, items)
    layer.initialise(interactions([(0, 0)], users, items), np.random.default_rng(0))
    return layer


def test_the_surrogate_slope() -> None:
    above = torch.tensor([0.0, 0.25, 0.4, 0.7, 1.5])
    wanted = torch.tensor([2.0, 1.0, 0.4, 0.4, 0.0])
    assert torch.allclose(surrogate_slope(above), wanted)
    assert torch.allclose(surrogate_slope(-above), wanted)
    above.requires_grad_()
    kept = step(above)
    assert kept.tolist() == [0, 1, 1, 1, 1]
    kept.sum().backward()
    assert above.grad is not None
    assert torch.allclose(above.grad, wanted)


def test_prefixes_are_nested() -> None:
    layer = made()
    masks = layer.mask(torch.arange(1, 5))
    assert masks.sum(dim=1).tolist() == [1, 2, 3, 4]
    assert (masks[:-1] <= masks[1:]).all()


def test_rows_below_their_threshold_are_zero() -> None:
    layer = made()
    norms = layer.weight.detach().abs().sum(dim=1)
    layer.thresholds.data.copy_(torch.stack([norms[:3].median(), norms[3:].max()]))
    table = layer.table()
    assert (
        layer.kept().tolist() == (norms > torch.cat([norms[:3].median().repeat(3), norms[3:].max().repeat(2)])).tolist()
    )
    assert layer.kept().sum() == 1
    assert not table[~torch.from_numpy(layer.kept())].any()


def test_the_penalty_raises_thresholds() -> None:
    layer = made(threshold_weight=0.5)
    layer.thresholds.data.copy_(torch.tensor([0.0, 2.0]))
    penalty = layer.penalty()
    assert penalty is not None
    penalty.backward()
    assert layer.thresholds.grad is not None
    assert torch.allclose(layer.thresholds.grad, -0.5 * torch.exp(-layer.thresholds.detach()))
    layer.settle()
    assert layer.penalty() is None


@pytest.mark.parametrize("thresholds", ["side", "entity"])
def test_the_count_by_hand(thresholds: str) -> None:
    """3 users of which 2 are kept, at width 3; 2 items, both kept, at width 1."""
    layer = made(thresholds=thresholds)
    layer.weight.data.fill_(1.0)
    layer.weight.data[1] = 0.0
    layer.set_sides(3, 1)
    for _ in range(2):  # while it searches and when it has settled
        assert layer.num_params() == 2 * 3 + 2 * 1
        assert layer.entity_sizes().tolist() == [3, 0, 3, 1, 1]
        before = layer.table().detach()
        layer.settle()
        assert torch.equal(layer.table(), before)
    assert layer.storage_bytes() == 4 * 8 + 5 + 8 + 1  # values, a width each, the seed, and that the search is over
    assert layer.total_trainable() == 5 * 4 + (2 if thresholds == "side" else 5)


def test_training_anew_starts_from_the_first_values_behind_the_masks() -> None:
    layer = made()
    first = layer.weight.detach().clone()
    layer.weight.data.mul_(3)
    layer.weight.data[1] = 0.0
    layer.set_sides(2, 3)
    layer.settle()
    layer.restart()
    wanted = first * layer.mask(torch.tensor([2, 0, 2, 3, 3]))
    assert torch.equal(layer.table(), wanted)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 200), st.integers(0, 2**32 - 1))
def test_what_is_drawn_is_within_the_budget(users: int, items: int, more: int, seed: int) -> None:
    layer = OptEmbed(OptEmbedConfig(dim=6, budget=users + items + more), users, items)
    for width_of_users, width_of_items in [layer.draw_sides(np.random.default_rng(seed)) for _ in range(3)]:
        assert 1 <= width_of_users <= 6
        assert 1 <= width_of_items <= 6
        assert users * width_of_users + items * width_of_items <= users + items + more


def test_a_budget_that_nothing_meets_says_the_least() -> None:
    with pytest.raises(UserError, match=r"9 stored values are too few: 10 are the least"):
        OptEmbed.sized(OptEmbedConfig(budget=9), 6, 4)
    assert OptEmbed.sized(OptEmbedConfig(budget=10), 6, 4)


def test_a_generation_must_not_be_empty() -> None:
    with pytest.raises(UserError, match="generations = 0"):
        resolve("optembed", overrides={"method": {"mutants": 0, "crossovers": 0}})


def test_a_target_is_a_budget_that_holds_even_if_nothing_was_tried() -> None:
    layer = made(users=6, items=4, target=0.6)
    assert layer.config.budget == 24
    layer.set_sides(layer.widest(0, 1), layer.widest(1, 1))
    layer.settle()
    assert layer.widths.tolist() == [2] * 10
    assert made(target=0.01).config.budget == 5, "a width is at least 1"
