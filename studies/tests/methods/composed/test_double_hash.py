# SPDX-License-Identifier: Apache-2.0
"""Double hashing: the frequent are apart, the rest share."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.composed.double_hash import DoubleHash, DoubleHashConfig
from legcf_studies.methods.composed.hashing import PRIME, draw_constants, hashed
from tests.helpers import random_interactions


def made(users: int = 60, items: int = 40, seed: int = 0, **options: Any) -> DoubleHash:
    layer = DoubleHash(DoubleHashConfig(**{"dim": 8, **options}), users, items)
    layer.initialise(random_interactions(users, items, 0.2, seed=1), np.random.default_rng(seed))
    return layer


def test_hashes_are_exact_in_64_bits() -> None:
    constants = draw_constants(5, np.random.default_rng(3))
    ids = torch.tensor([0, 1, 70_838, 2**31 - 2])
    wanted = [
        [(int(a) * int(x) + int(b)) % PRIME % 1000 for a, b in zip(*constants.tolist(), strict=True)] for x in ids
    ]
    assert hashed(ids, constants, 1000).tolist() == wanted
    assert constants[0].min() > 0


def test_buckets_are_evenly_filled() -> None:
    """χ² of 100 buckets with 99 degrees of freedom: 99 ± 14."""
    found = hashed(torch.arange(50_000), draw_constants(2, np.random.default_rng(0)), 100)
    for function in found.T:
        load = torch.bincount(function, minlength=100).double()
        assert float(((load - 500) ** 2 / 500).sum()) < 99 + 5 * 14
    assert float((found[:, 0] == found[:, 1]).double().mean()) < 0.05


def test_the_frequent_have_rows_that_no_one_else_touches() -> None:
    layer = made(private_rows=10, buckets=15)
    train = random_interactions(60, 40, 0.2, seed=1)
    degrees = np.concatenate([train.user_degrees, train.item_degrees])
    frequent = layer.frequent.numpy()
    rest = np.setdiff1d(np.arange(100), frequent)
    assert degrees[frequent].min() >= degrees[rest].max()
    layer.rows(torch.from_numpy(rest)).sum().backward()
    assert layer.weight.grad is not None
    assert not layer.weight.grad[:10].any()
    layer.weight.grad.zero_()
    layer.rows(layer.frequent.long()).sum().backward()
    assert torch.equal(layer.weight.grad[:10], torch.ones(10, 8))
    assert not layer.weight.grad[10:].any()


@pytest.mark.parametrize("combine", ["shared", "sum", "concat"])
def test_what_the_others_are_made_of(combine: str) -> None:
    layer = made(private_rows=10, buckets=15, combine=combine)
    rare = next(x for x in range(100) if x not in layer.frequent)
    h1, h2 = hashed(torch.tensor([rare]), layer.hash_constants, 15)[0].tolist()
    weight = layer.weight
    wanted = {
        "shared": lambda: weight[10 + h1] + weight[10 + h2],
        "sum": lambda: weight[10 + h1] + weight[25 + h2],
        "concat": lambda: torch.cat([weight[10 + h1][:4], weight[10 + h2][4:]]),
    }
    assert torch.equal(layer.rows(torch.tensor([rare]))[0], wanted[combine]())
    assert layer.num_params() == {"shared": 25, "sum": 40, "concat": 25}[combine] * 8
    assert layer.storage_bytes() == 4 * layer.num_params() + 4 * 10 + 4 * 8


@pytest.mark.parametrize("combine", ["shared", "sum"])
def test_sums_are_linear(combine: str) -> None:
    layer = made(private_rows=10, buckets=4, combine=combine)
    linear = layer.linear_basis()
    assert linear is not None
    assert np.allclose(linear[0] @ linear[1].detach().numpy(), layer.table().detach().numpy(), atol=1e-6)
    assert made(private_rows=10, buckets=4, combine="concat").linear_basis() is None


def test_with_rows_for_all_it_is_the_full_table() -> None:
    layer = made(private_rows=100, buckets=0)
    assert torch.equal(layer.table(), layer.weight)
    assert layer.num_params() == 800


def test_without_any_it_is_pure_hashing() -> None:
    layer = made(private_rows=0, buckets=20)
    assert len(layer.weight) == 20
    assert layer.table().shape == (100, 8)


def test_users_and_items_can_be_ranked_apart() -> None:
    frequent = made(private_rows=10, buckets=5, ranked="apart").frequent
    assert int((frequent < 60).sum()) == 6


def test_sizes_from_the_budget() -> None:
    layer = DoubleHash(DoubleHashConfig(budget="legcf"), 29_858, 40_981)
    assert (layer.num_private, layer.num_buckets) == (803, 803)
    assert layer.num_params() == 205_568
    for budget in range(16, 400, 7):
        for combine in ("shared", "sum", "concat"):
            assert made(budget=budget, combine=combine).num_params() <= budget


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="8 are the least"):
        made(budget=7)
    with pytest.raises(UserError, match="88 are the least"):
        made(budget=80, private_rows=10)
    with pytest.raises(UserError, match="too few"):
        made(budget=80, private_rows=10, buckets=1)
    with pytest.raises(UserError, match="without a row"):
        made(private_rows=10, buckets=0)
    with pytest.raises(UserError, match="lower it"):
        made(private_rows=101, buckets=1)
    for options in ({"buckets": -1}, {"private_share": 1.5}, {"combine": "concat", "dim": 7}):
        with pytest.raises(UserError, match="is not possible"):
            resolve("double-hash", overrides={"method": options})


def test_a_seed_gives_the_same_hashes() -> None:
    assert torch.equal(made(seed=4).hash_constants, made(seed=4).hash_constants)
