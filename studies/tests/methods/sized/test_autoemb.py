# SPDX-License-Identifier: Apache-2.0
"""AutoEmb: weights of candidates, what they are a function of, and what is left after a choice."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.sized.autoemb import AutoEmb, AutoEmbConfig
from tests.helpers import interactions

# Users 0 and 1 have one pair each, user 2 has four; item 0 has three, the others one.
TRAIN = interactions([(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)], 3, 4)


def made(**options: Any) -> AutoEmb:
    layer = AutoEmb(AutoEmbConfig(**{"dim": 6, "widths": [1, 2, 4], "hidden": 8, **options}), 3, 4)
    layer.initialise(TRAIN, np.random.default_rng(0))
    return layer


def test_weights_are_shares() -> None:
    weights = made().entity_weights()
    assert weights.shape == (7, 3)
    assert (weights >= 0).all()
    assert torch.allclose(weights.sum(dim=1), torch.ones(7))


def test_equally_popular_entities_of_a_side_weigh_alike() -> None:
    layer = made()
    weights = layer.entity_weights()
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[4], weights[6])
    assert not torch.allclose(weights[0], weights[2])
    assert not torch.allclose(weights[0], weights[4])  # users and items have controllers of their own


def test_the_first_previous_weight_is_all_on_the_smallest_and_weights_follow_it() -> None:
    layer = made()
    assert (layer.previous[:, :, 0] == 1).all()
    before = layer.level_weights().detach().clone()
    layer.remember_weights()
    assert torch.equal(layer.previous, before)
    assert not torch.equal(layer.level_weights(), before)


def normalised(rows: np.ndarray) -> np.ndarray:
    return np.tanh((rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-5))


def test_the_definition() -> None:
    layer = made()
    weights, tables = layer.entity_weights().detach().numpy(), layer.tables.detach().numpy()
    for side, members in enumerate((slice(0, 3), slice(3, 7))):
        maps, biases = layer.maps[side].detach().numpy(), layer.biases[side].detach().numpy()
        parts = [(slice(0, 1), 0), (slice(1, 3), 1), (slice(3, 7), 2)]
        mapped = np.stack([tables[members, columns] @ maps[columns] + biases[m] for columns, m in parts])
        squashed = normalised(mapped.reshape(-1, 6)).reshape(mapped.shape)
        wanted = np.einsum("mnd,nm->nd", squashed, weights[members])
        assert np.allclose(layer.table().detach().numpy()[members], wanted, atol=1e-5)


def test_the_definition_without_squashing() -> None:
    layer = made(squash=False)
    layer.biases.data.normal_(generator=torch.Generator().manual_seed(0))
    weights, tables = layer.entity_weights().detach(), layer.tables.detach()
    parts = [(slice(0, 1), 0), (slice(1, 3), 1), (slice(3, 7), 2)]
    wanted = sum(
        weights[:3, m, None] * (tables[:3, columns] @ layer.maps[0, columns] + layer.biases[0, m])
        for columns, m in parts
    )
    assert torch.allclose(layer.table()[:3], wanted, atol=1e-6)


def test_a_single_candidate_does_not_depend_on_the_controller() -> None:
    layer = made(widths=[4])
    assert (layer.entity_weights() == 1).all()
    before = layer.table().detach().clone()
    for parameter in layer.controller.parameters():
        parameter.data.mul_(-3)
    assert torch.equal(layer.table(), before)
    own = layer.tables[:3] @ layer.maps[0] + layer.biases[0]
    assert np.allclose(before[:3].numpy(), normalised(own.detach().numpy()), atol=1e-5)


@pytest.mark.parametrize("squash", [True, False])
def test_hard_counts_less_than_soft_and_needs_the_chosen_values_alone(squash: bool) -> None:
    soft, hard = made(squash=squash), made(squash=squash, selection="hard")
    for layer in (soft, hard):
        layer.settle()
    assert soft.num_params() == 7 * (1 + 2 + 4)
    assert soft.entity_sizes() is None
    sizes = hard.entity_sizes()
    assert sizes is not None
    assert hard.num_params() == sizes.sum() < soft.num_params()
    assert hard.storage_bytes() < soft.storage_bytes()
    before = hard.table().detach().clone()
    assert (hard.tables != 0).sum() == hard.num_params()  # what was not chosen is gone
    hard.tables.data[hard.tables == 0] = 5.0  # and whatever stood there would not matter
    assert torch.equal(hard.table(), before)


def test_settled_weights_stay() -> None:
    layer = made()
    before = layer.entity_weights().detach().clone()
    layer.settle()
    for parameter in layer.controller.parameters():
        parameter.data.mul_(-3)
    layer.settle()
    assert torch.equal(layer.entity_weights(), before)


@given(st.integers(7, 40), st.integers(0, 2**32 - 1))
def test_a_hard_choice_keeps_within_the_budget(budget: int, seed: int) -> None:
    layer = made(selection="hard", budget=budget)
    weights = torch.from_numpy(np.random.default_rng(seed).dirichlet([1, 1, 1], 7).astype(np.float32))
    choice = layer._affordable(weights)
    stored = sum([1, 2, 4][m] for m in choice.tolist())
    assert stored <= budget
    free = weights.argmax(dim=1)
    if sum([1, 2, 4][m] for m in free.tolist()) <= budget:
        assert torch.equal(choice, free)


@pytest.mark.parametrize(("budget", "widths"), [(7, [1]), (14, [2]), (21, [1, 2]), (35, [1, 4]), (1000, [1, 2, 4])])
def test_a_soft_budget_decides_the_candidates(budget: int, widths: list[int]) -> None:
    assert made(budget=budget).config.widths == widths


@pytest.mark.parametrize("selection", ["soft", "hard"])
def test_a_budget_that_nothing_meets_says_the_least(selection: str) -> None:
    with pytest.raises(UserError, match="13 stored values are too few: 14 are the least"):
        made(widths=[2, 4], budget=13, selection=selection)


@pytest.mark.parametrize(
    ("widths", "said"),
    [([], "at least one"), ([4, 2], "rise"), ([2, 2], "rise"), ([0, 2], "at least 1"), ([2, 300], "above dim")],
)
def test_candidates_that_cannot_be(widths: list[int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        resolve("autoemb", overrides={"method": {"widths": widths}})
