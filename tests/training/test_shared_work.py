# SPDX-License-Identifier: Apache-2.0
"""Runs that share work end as they end on their own."""

from typing import Any

import numpy as np
import pytest

from legcf.data.interactions import Dataset
from legcf.ranking.item_lists.lists import ItemLists
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.run_folder import TrainedModel
from legcf.training.shared_work import Work
from tests.helpers import planted
from tests.test_numbers import benchmark

SharedWork = benchmark("sizes_together").SharedWork

SIZES = (30_000, 13_000, 16_000)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(150, 120, cold=3)


def trained(dataset: Dataset, size: int, work: Work, lines: list[Any]) -> TrainedModel:
    training = {"epochs": 1, "batch_size": 400, "threads": 1}
    overrides = {"method": {"c": 8, "dim": 16}, "training": training, "ranking": {"bytes": size}}
    return train(dataset, resolve(overrides=overrides), TrainingOptions(quiet=True, on_epoch=lines.append, work=work))


def test_every_size_is_what_it_is_on_its_own(dataset: Dataset) -> None:
    work = SharedWork()
    for size in SIZES:
        plain_lines, lines = list[Any](), list[Any]()
        plain, one = trained(dataset, size, Work(), plain_lines), trained(dataset, size, work, lines)
        assert one.config == plain.config
        assert one.metrics["test"] == plain.metrics["test"]
        assert one.metrics["best_epoch"] == plain.metrics["best_epoch"]
        np.testing.assert_array_equal(one.ranking.items, plain.ranking.items)
        assert isinstance(one.ranking.lists, ItemLists)
        assert isinstance(plain.ranking.lists, ItemLists)
        np.testing.assert_array_equal(one.ranking.lists.weights, plain.ranking.lists.weights)
        np.testing.assert_array_equal(one.ranking.lists.pairs.items, plain.ranking.lists.pairs.items)
        assert len(lines) <= len(plain_lines)  # what is recalled is not reported again


def test_other_pairs_are_never_mixed_up(dataset: Dataset) -> None:
    work = SharedWork()
    made = [work.once(part, "key", object) for part in (dataset.train, dataset.test, dataset.train)]
    assert made[0] is made[2]
    assert made[0] is not made[1]
