# SPDX-License-Identifier: Apache-2.0
"""Two ranks, real processes, find what one finds."""

from pathlib import Path

import numpy as np
import pytest

from legcf.core import distributed
from tests.forked import ranks
from tests.rank_program import main


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, np.ndarray]]:
    """What one rank and what two ranks find."""
    folder = tmp_path_factory.mktemp("ranks")
    log = folder / "log"
    started = [rank for count in (1, 2) for rank in ranks(main, folder / f"{count}.npz", count=count, log=log)]
    assert [rank.wait(120) for rank in started] == [0, 0, 0], log.read_text()
    return {count: dict(np.load(folder / f"{count}.npz")) for count in (1, 2)}


@pytest.mark.parametrize("name", ["als", "singular", "weights", "gains", "code_weights", "metrics", "gradient"])
def test_two_ranks_find_what_one_finds(found: dict[int, dict[str, np.ndarray]], name: str) -> None:
    np.testing.assert_allclose(found[2][name], found[1][name], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", ["candidates", "codes", "passed", "batches", "negatives"])
def test_two_ranks_choose_what_one_chooses(found: dict[int, dict[str, np.ndarray]], name: str) -> None:
    np.testing.assert_array_equal(found[2][name], found[1][name])


def test_two_ranks_train_what_one_trains(found: dict[int, dict[str, np.ndarray]]) -> None:
    """The same batches and negatives: the codebook moves alike, up to rounding that Adam's first steps enlarge."""
    moved, apart = found[1]["trained"], found[2]["trained"] - found[1]["trained"]
    assert np.linalg.norm(apart) < 0.01 * np.linalg.norm(moved)


def test_alone_nothing_is_exchanged() -> None:
    array = np.arange(5)
    assert distributed.all_reduce_sum(array) is array
    assert distributed.local_rows(distributed.even_partition(5)) == slice(0, 5)
    assert distributed.local_rows(distributed.row_partition(np.array([0, 2, 9]))) == slice(0, 2)
    assert distributed.run_on_first_and_broadcast(lambda: {"a": 1}) == {"a": 1}
    assert not distributed.goes_on(Path("nowhere"), may_begin=True)
