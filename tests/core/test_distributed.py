# SPDX-License-Identifier: Apache-2.0
"""Two ranks, real processes, find what one finds."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from legcf.core import distributed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, np.ndarray]]:
    """What one rank and what two ranks find."""
    folder = tmp_path_factory.mktemp("ranks")
    started = {count: start(count, folder / f"{count}.npz") for count in (1, 2)}
    for count, processes in started.items():
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, (count, errors)
    return {count: dict(np.load(folder / f"{count}.npz")) for count in started}


def start(count: int, out: Path) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {
        "TORCHELASTIC_RUN_ID": "test",
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.rank_program", str(out)],
            env={**os.environ, **job, "RANK": str(rank), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(count)
    ]


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
