# SPDX-License-Identifier: Apache-2.0
"""NimbleTT: digits, cores and the table they make."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.training.registry import resolve
from legcf_studies.methods.composed.nimble_tt import NimbleTT, NimbleTtConfig, balanced_factors, near_cube
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(60, 40)


def made(dataset: Dataset, **options: Any) -> NimbleTT:
    layer = NimbleTT(NimbleTtConfig(**{"dim": 12, "rank": 3, **options}), dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


def test_the_definition(dataset: Dataset) -> None:
    layer = made(dataset, order="given", row_shape=[4, 5, 6], column_shape=[2, 3, 2])
    table, rows = layer.table(), layer.rows(torch.arange(100))
    for x in (0, 17, 59, 99):
        i1, i2, i3 = x // 30, x // 6 % 5, x % 6
        wanted = torch.einsum("ja,akb,bl->jkl", layer.first[i1], layer.second[:, i2], layer.third[:, i3]).flatten()
        assert torch.allclose(table[x], wanted, atol=1e-6)
        assert torch.allclose(rows[x], wanted, atol=1e-6)


def test_cores_of_ones_make_a_table_of_ones(dataset: Dataset) -> None:
    layer = made(dataset, rank=1)
    for core in layer.parameters():
        core.data.fill_(1)
    assert torch.equal(layer.table(), torch.ones(100, 12))


def test_rows_never_build_the_table(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = made(dataset)
    monkeypatch.setattr(NimbleTT, "padded", lambda self: pytest.fail("the whole table was built"))
    assert layer.rows(torch.tensor([3, 50])).shape == (2, 12)


def test_a_slice_of_a_core_belongs_to_its_digit(dataset: Dataset) -> None:
    layer = made(dataset, order="given", row_shape=[4, 5, 6])
    layer.rows(torch.tensor([30, 59])).sum().backward()
    assert layer.first.grad is not None
    assert torch.equal(layer.first.grad.abs().sum(dim=(1, 2)) > 0, torch.tensor([False, True, False, False]))


def test_the_order_is_a_bijection_that_keeps_communities_together(dataset: Dataset) -> None:
    order = made(dataset).order.numpy()
    assert np.array_equal(np.sort(order), np.arange(100))
    users, items = dataset.train.users(), dataset.train.items + 60
    apart = np.abs(order[users].astype(int) - order[items]).mean()
    assert apart < 0.8 * np.abs(users.astype(int) - items).mean()


@pytest.mark.parametrize("rank", [1, 2])
def test_orthogonal_cores_make_orthonormal_columns(dataset: Dataset, rank: int) -> None:
    layer = made(dataset, rank=rank, dim=8, column_shape=[2, 2, 2], initial="orthogonal")
    padded = layer.padded().detach()
    assert torch.allclose(padded.T @ padded, torch.eye(8) * 0.01 * len(padded), atol=1e-5)


@pytest.mark.parametrize("rank", [2, 10])
def test_entries_start_as_large_as_lightgcns(rank: int) -> None:
    large = planted(600, 400)
    assert abs(float(made(large, rank=rank, dim=128).table().detach().std()) - 0.1) < 0.03


@pytest.mark.parametrize("entities", [1, 2, 5, 100, 1000, 1001, 70_839, 116_198, 144_242])
def test_shapes_have_room_for_all(entities: int) -> None:
    shape = near_cube(entities)
    assert np.prod(shape) >= entities
    assert max(shape) - min(shape) <= 1


def test_factors_of_the_width() -> None:
    assert balanced_factors(128) == [8, 4, 4]
    assert balanced_factors(64) == [4, 4, 4]
    assert balanced_factors(7) == [7, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "shape", "rank", "values"),
    [
        ((29_858, 40_981), [41, 42, 42], 33, 199_320),
        ((71_135, 45_063), [49, 49, 49], 37, 290_080),
        ((52_643, 91_599), [52, 53, 53], 39, 346_944),
    ],
)
def test_sizes_from_the_budget(sizes: tuple[int, int], shape: list[int], rank: int, values: int) -> None:
    layer = NimbleTT(NimbleTtConfig(budget="legcf"), *sizes)
    assert (layer.config.row_shape, layer.config.rank, layer.num_params()) == (shape, rank, values)
    assert layer.total_trainable() == values
    assert layer.storage_bytes() == 4 * values + 4 * sum(sizes)
    larger = NimbleTtConfig(budget="legcf", rank=rank + 1)
    with pytest.raises(UserError, match="too few"):
        NimbleTT(larger, *sizes)


def test_a_rank_beyond_use_is_not_stored(dataset: Dataset) -> None:
    layer = made(dataset, rank=1000, dim=8)
    assert layer.first.shape == (4, 2, 8)
    assert layer.num_params() == layer.total_trainable()


def test_what_is_refused(dataset: Dataset) -> None:
    with pytest.raises(UserError, match="are the least"):
        made(dataset, rank=None, budget=10)
    with pytest.raises(UserError, match="holds 27 of the 100"):
        made(dataset, row_shape=[3, 3, 3])
    with pytest.raises(UserError, match="lower the rank or use auto"):
        made(dataset, rank=9, initial="orthogonal")
    for options in ({"rank": 0}, {"row_shape": [4, 5]}, {"column_shape": [8, 4, 5]}, {"row_shape": [0, 9, 9]}):
        with pytest.raises(UserError, match="is not possible"):
            resolve("nimble-tt", overrides={"method": options})
