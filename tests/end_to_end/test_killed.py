# SPDX-License-Identifier: Apache-2.0
"""A run killed with SIGKILL at any moment and resumed ends with the numbers of a run that was left alone."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import forked
from tests.helpers import planted, write_folder

OPTIONS = (
    "--preset", "paper", "--seed", "5", "--epochs", "25", "--quiet", "--json",
    "--set", "method.c=8", "--set", "method.dim=8", "--set", "method.update=matching-pursuit",
    "--set", "training.batch_size=20", "--set", "training.patience=100", "--set", "training.checkpoint_seconds=0.02",
    "--set", "training.threads=1",
)  # fmt: skip


SEARCHES = {
    "autoemb": ("method.widths=[1,4]", "method.selection=hard", "method.search_epochs=12", "method.hidden=16"),
    "optembed": ("method.supernet_epochs=4", "method.generations=8", "method.mutants=3", "method.crossovers=3"),
}


def options(method: str) -> tuple[str, ...]:
    if method not in SEARCHES:
        return OPTIONS
    shared = ("method.dim=8", "training.batch_size=20", "training.checkpoint_seconds=0", "training.threads=1")
    settings = (word for setting in (*SEARCHES[method], *shared) for word in ("--set", setting))
    return ("--method", method, "--preset", "paper", "--seed", "5", "--epochs", "3", "--quiet", "--json", *settings)


def command(data: Path, out: Path, method: str, *more: str) -> list[str]:
    return ["train", str(data), "--out", str(out), *options(method), *more]


def left_alone(command: list[str], log: Path) -> None:
    """Run a command to its end, in a process like those that are killed: only there all sums are the same."""
    assert forked.command(*command, log=log).wait(300) == 0, log.read_text()


def numbers(out: Path) -> dict[str, Any]:
    metrics = json.loads((out / "metrics.json").read_text())
    return {key: value for key, value in metrics.items() if key not in ("seconds", "peak_rss_mb")}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["legcf", *SEARCHES])
def test_killed_and_resumed(method: str, tmp_path: Path) -> None:
    data = write_folder(planted(60, 60), tmp_path / "data")
    left_alone(command(data, tmp_path / "whole", method), tmp_path / "log")
    out, rng = tmp_path / "killed", np.random.default_rng()
    third = lines_of(tmp_path / "whole") // 3
    for attempt in range(20):
        if kill_and_resume(data, out, method, third >> attempt, rng):
            break
        shutil.rmtree(out)  # it ended before it could be killed: sooner, and at last as soon as it has begun
    else:
        pytest.fail("it could not be killed before its end")
    left_alone(command(data, out, method, "--resume"), tmp_path / "log")
    assert numbers(out) == numbers(tmp_path / "whole")
    assert lines_of(out) == lines_of(tmp_path / "whole")
    assert not list(out.rglob("*.part"))


def kill_and_resume(data: Path, out: Path, method: str, lines: int, rng: np.random.Generator) -> int:
    """Start a run and kill it within so many lines, up to three times; return how often this was before its end."""
    interrupted = 0
    while interrupted < 3 and not (out / "metrics.json").exists():
        begun = (out / "config.json").exists()
        process = forked.command(*command(data, out, method, *(["--resume"] if begun else [])))
        wait_for_progress(process, out, lines_of(out) + int(rng.integers(0, lines + 1)))
        time.sleep(float(rng.random()) * 0.1 if lines else 0)
        process.kill()
        process.wait(60)
        interrupted += not (out / "metrics.json").exists()
    return interrupted


def lines_of(out: Path) -> int:
    path = out / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for_progress(process: forked.Forked, out: Path, lines: int) -> None:
    """Until the run has told this many epochs, or has ended; a resumed one may first drop some."""
    deadline = time.monotonic() + 60
    while process.poll() is None and lines_of(out) < lines and time.monotonic() < deadline:
        time.sleep(0.003)
