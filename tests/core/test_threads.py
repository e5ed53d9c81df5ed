# SPDX-License-Identifier: Apache-2.0
"""As many threads as there are cores to have, the same for all that computes, and none that spins while it waits."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from legcf.core import threads


@pytest.mark.parametrize(
    ("files", "group", "cores"),
    [
        ({}, "0::/", None),
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "150000 100000"}, "0::/", 1.5),
        ({"shop/web/cpu.max": "max 100000", "shop/cpu.max": "200000 100000"}, "0::/shop/web", 2),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/elsewhere", 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu:/", None),
        ({"cpu.max": "nonsense"}, "0::/", None),
    ],
)
def test_the_quota_of_a_container(tmp_path: Path, files: dict[str, str], group: str, cores: float | None) -> None:
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{group}\n")
    found = threads.container_quota(tmp_path / "fs", tmp_path / "own")
    assert found > 1000 if cores is None else found == cores


def test_affinity_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "container_quota", lambda: 3.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert threads.available() == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert threads.available() == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.available() == 2


def test_all_pools_alike_and_none_spins() -> None:
    """In a process of its own: how threads wait is decided when their library is loaded."""
    code = (
        "import legcf.training.run, torch; from legcf.core import threads; threads.use(1)\n"
        "import numba; from threadpoolctl import threadpool_info\n"
        "counts = [pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']\n"
        "print({torch.get_num_threads(), numba.get_num_threads(), *counts})"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment.pop("OMP_WAIT_POLICY", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "OMP_DISPLAY_ENV": "true"},
        timeout=120,
    )
    assert done.stdout.strip() == "{1}"
    policies = [line for line in done.stderr.splitlines() if "OMP_WAIT_POLICY" in line]
    assert policies
    assert all("PASSIVE" in line for line in policies)


def test_collections_pass_over_what_is_there_until_the_outermost_ends() -> None:
    gc.unfreeze()  # what the tests have frozen
    try:
        with threads.collecting_what_is_new():
            with threads.collecting_what_is_new():
                assert gc.get_freeze_count()
            assert gc.get_freeze_count()
        assert not gc.get_freeze_count()
        gc.freeze()
        with threads.collecting_what_is_new():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.freeze()
