# SPDX-License-Identifier: Apache-2.0
"""Preparation on Dask gives what the local engine gives, also when a worker is lost."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.preparing.prepared import verify
from legcf.data.source import prepare_on_cluster, prepare_source

if TYPE_CHECKING:
    import distributed


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files with repeated pairs, ids of text and of numbers, and one without a row."""
    folder, rng = tmp_path_factory.mktemp("parts"), np.random.default_rng(0)
    for number in range(4):
        count = 0 if number == 2 else 700
        users, items = rng.integers(0, 90, count), rng.integers(0, 40, count) ** 2
        frame = pl.DataFrame({
            "user": [f"u{user}" for user in users], "item": items, "timestamp": rng.integers(0, 10**6, count),
        }, schema={"user": pl.String, "item": pl.Int64, "timestamp": pl.Int64})  # fmt: skip
        frame.write_parquet(folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize(
    "options",
    [
        DataOptions(),
        DataOptions(k_core=12, split_seed=3),
        DataOptions(protocol="leave-last-out", k_core=5),
    ],
)
def test_hash_is_that_of_the_local_engine(
    cluster: "distributed.LocalCluster", parts: Path, options: DataOptions, tmp_path: Path
) -> None:
    pattern = str(parts / "*.parquet")
    here = prepare_source(pattern, tmp_path / "here", options, quiet=True)
    there = prepare_on_cluster(pattern, tmp_path / "there", options, cluster.scheduler_address, quiet=True)
    assert there.content_hash == here.content_hash
    assert verify(there)
    assert there.provenance == here.provenance
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == sorted(
        path.name for path in (tmp_path / "here").iterdir()
    )


def test_a_killed_worker_changes_nothing(cluster: "distributed.LocalCluster", parts: Path, tmp_path: Path) -> None:
    pattern, options = str(parts / "*.parquet"), DataOptions(k_core=3)
    here = prepare_source(pattern, tmp_path / "here", options, quiet=True)
    victim = next(iter(cluster.workers.values())).pid

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(tmp_path.glob(".there.*.part/dask-*.npz")):
            time.sleep(0.002)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = prepare_on_cluster(pattern, tmp_path / "there", options, cluster.scheduler_address, quiet=True)
    killer.join()
    assert there.content_hash == here.content_hash


def test_what_dask_does_not_do_is_said(parts: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(UserError, match="ratio or leave-last-out"):
        prepare_on_cluster(str(parts / "*.parquet"), tmp_path / "out", DataOptions(protocol="temporal"))
    with pytest.raises(UserError, match="tables in files"):
        prepare_on_cluster(str(parts), tmp_path / "out")
    with pytest.raises(UserError, match="No Dask scheduler"):
        prepare_on_cluster(str(parts / "*.parquet"), tmp_path / "out", scheduler="nonsense://nowhere")
