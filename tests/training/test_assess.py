# SPDX-License-Identifier: Apache-2.0
"""Check the bytes that a model file leaves for vectors and lists."""

from typing import Any

import pytest

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.training.assess import ByteBudget, peak_memory_mb
from legcf.training.registry import resolve
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(size: Any, **method: Any) -> RunConfig:
    return resolve(overrides={"method": method, "ranking": {"bytes": size}})


def left(dataset: Dataset, config: RunConfig) -> int:
    budget = ByteBudget.of(config, dataset)
    assert budget is not None
    return budget.left(config.method)


def test_names_and_header_come_off_a_size_and_on_top_of_auto(dataset: Dataset) -> None:
    assert 0 < left(dataset, configured(50_000)) < 50_000 - 10_000
    assert left(dataset, configured("auto")) == 1_000_000


def test_a_large_codebook_takes_bytes_of_its_own(dataset: Dataset) -> None:
    small, large = (left(dataset, configured(50_000, c=codes, t=1)) for codes in (1000, 1100))
    assert small - large == 400


def test_a_file_of_any_size_has_no_budget(dataset: Dataset) -> None:
    assert ByteBudget.of(resolve("full"), dataset) is None


def test_a_size_without_bytes_for_every_item_is_refused(dataset: Dataset) -> None:
    with pytest.raises(UserError, match="are the least for all; raise --bytes"):
        left(dataset, configured(1000))


def test_memory_is_in_megabytes() -> None:
    assert 10 < peak_memory_mb() < 1_000_000
