# SPDX-License-Identifier: Apache-2.0
"""GraphHash: communities as rows, within a budget of values or bytes."""

from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf_studies.methods.clustered.graphhash import GraphHash, GraphHashConfig
from legcf_studies.methods.clustered.louvain import louvain
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(120, 100, cold=2)


def made(dataset: Dataset, **options: Any) -> GraphHash:
    layer = GraphHash(GraphHashConfig(dim=8, **options), dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


def test_a_row_is_a_community_of_one_side(dataset: Dataset) -> None:
    layer, rng = made(dataset, resolution=5.0), np.random.default_rng(0)
    found = louvain(dataset.train, 5.0, np.random.default_rng(int(rng.integers(2**62))))
    rows = layer.assigned.numpy()
    assert not set(rows[:120]) & set(rows[120:])
    has_pairs = np.concatenate([dataset.train.user_degrees, dataset.train.item_degrees]) > 0
    for side in (slice(0, 120), slice(120, 220)):
        both = np.stack([rows[side], found[side]])[:, has_pairs[side]]
        assert np.unique(both, axis=1).shape[1] == len(np.unique(both[0])) == len(np.unique(both[1]))
    assert layer.num_params() == (rows.max() + 1) * 8


@pytest.mark.parametrize("double", [False, True])
def test_a_budget_is_used_and_never_passed(dataset: Dataset, double: bool) -> None:
    for budget in (100, 400, 1200):
        assert 0.5 * budget < made(dataset, budget=budget, double=double).num_params() <= budget
    for budget in (800, 2000, 5000):
        assert 0.5 * budget < made(dataset, budget=f"{budget}B", double=double).storage_bytes() <= budget
    with pytest.raises(UserError, match="are the least here"):
        made(dataset, budget=15)


def test_the_double_one_adds_a_row_of_its_own_side(dataset: Dataset) -> None:
    layer = made(dataset, resolution=5.0, double=True)
    rows, users = layer.table_rows(layer.assigned.new_tensor(range(220)).long()), int(layer.num_user_rows)
    assert np.array_equal(rows[:, 0], layer.assigned)
    assert int(rows[:120].max()) < users <= int(rows[120:].min())
    assert len(np.unique(rows.numpy(), axis=0)) > 2 * len(np.unique(layer.assigned))


def test_few_rows_are_shared_by_the_smallest_communities(dataset: Dataset) -> None:
    layer = made(dataset, resolution=50.0, rows=7)
    assert len(layer.weight) == 7
    assert set(layer.assigned.numpy()) == set(range(7))
