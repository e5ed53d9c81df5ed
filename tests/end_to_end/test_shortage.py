# SPDX-License-Identifier: Apache-2.0
"""A training that lacks memory or disk ends with one sentence, leaves nothing half-written, and goes on later."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.forked import Forked, command, run_command
from tests.helpers import planted, write_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
WORDS = ("--quiet", "--no-baselines", "--set", "training.checkpoint_seconds=0", "--set", "training.threads=1")
METHOD = ("--method", "full", "--preset", "paper", "--epochs", "2", "--dim", "3000")


def limited(kind: int, size: int, *words: str) -> None:
    """`legcf WORDS` with at most so much of something."""
    if kind == resource.RLIMIT_AS:
        size += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))
    run_command(*words)


def numbers(out: Path) -> dict[str, Any]:
    metrics = json.loads((out / "metrics.json").read_text())
    return {key: value for key, value in metrics.items() if key not in ("seconds", "peak_rss_mb")}


def only_sentence(log: Path) -> str:
    lines = log.read_text().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("legcf: ")
    return lines[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(60, 60), tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def expected(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert command("train", data, "--out", out, *METHOD, *WORDS).wait(120) == 0
    return numbers(out)


@pytest.mark.parametrize(
    ("kind", "size", "shortage"),
    [
        (resource.RLIMIT_FSIZE, 100_000, "File too large"),
        (resource.RLIMIT_AS, 8 << 20, "There is not enough memory"),
    ],
    ids=["disk", "memory"],
)
def test_a_run_that_lacks_something_goes_on_later(
    kind: int, size: int, shortage: str, data: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    words = ("train", str(data), "--out", str(out), *METHOD, *WORDS)
    assert Forked(limited, kind, size, *words, log=log).wait(120) == 2
    assert shortage in only_sentence(log)
    assert not list(tmp_path.rglob("*.part"))
    assert command(*words, "--resume").wait(120) == 0
    assert numbers(out) == expected


def test_memory_that_does_not_even_hold_torch_is_a_sentence(data: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (900_000 << 10, resource.RLIM_INFINITY))

    words = [sys.executable, "-m", "legcf", "train", str(data), "--out", str(tmp_path / "run"), *METHOD, *WORDS]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(words, preexec_fn=limit, env=alone, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("legcf: There is not enough memory")
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_is_trained_in_is_refused(data: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    words = ("train", str(data), "--out", str(out), *METHOD, *WORDS)
    first = command(*words[:-4], "--epochs", "10000", *WORDS)
    try:
        while not (out / "checkpoint" / "state.safetensors").exists():
            assert first.poll() is None
        psutil.Process(first.pid).suspend()  # or it might end before the second begins
        before = sorted(path.name for path in out.iterdir())
        second = command(*words[:-4], "--epochs", "10000", *WORDS, "--resume", log=log)
        assert second.wait(60) == 2
        assert f"{out} is being written by another process" in only_sentence(log)
        assert sorted(path.name for path in out.iterdir()) == before
    finally:
        first.kill()
        first.wait(60)
