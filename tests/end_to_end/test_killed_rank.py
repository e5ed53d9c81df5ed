# SPDX-License-Identifier: Apache-2.0
"""A job of two ranks that loses one, whenever it is, ends with the numbers of one that was left alone."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers import planted, write_folder

SETTINGS = (
    "method.c=8", "method.dim=8", "method.update=matching-pursuit", "training.batch_size=20", "training.patience=100",
    "training.checkpoint_seconds=0.02", "training.threads=1",
)  # fmt: skip
MOMENTS = (0, 5, 15)  # lines of metrics.jsonl that are there when a rank is killed: none, some, many
PATIENCE = 240


def command(data: Path, out: Path, *more: str) -> list[str]:
    settings = (word for setting in SETTINGS for word in ("--set", setting))
    program = [sys.executable, "-m", "legcf", "train", str(data), "--out", str(out), "--workers", "2", "--quiet"]
    return [*program, "--preset", "paper", "--seed", "5", "--epochs", "12", *settings, *more]


def numbers(out: Path) -> dict[str, Any]:
    metrics = json.loads((out / "metrics.json").read_text())
    return {key: value for key, value in metrics.items() if key not in ("seconds", "peak_rss_mb")}


@pytest.mark.slow
def test_a_rank_is_killed_at_three_moments(tmp_path: Path) -> None:
    data = write_folder(planted(60, 60), tmp_path / "data")
    subprocess.run(command(data, tmp_path / "whole"), check=True, capture_output=True, timeout=PATIENCE)
    out = tmp_path / "killed"
    job = subprocess.Popen(command(data, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        gone: set[int] = set()
        for number, lines in enumerate(MOMENTS):
            victim = wait_for_rank(job, out, lines, gone, rank=number % 2)
            gone |= {one.pid for one in ranks_of(job)}
            (
                victim.parent() or victim if lines == MOMENTS[-1] else victim
            ).kill()  # at last the launcher, and all with it
        assert job.wait(timeout=PATIENCE) == 0
    finally:
        for process in [*ranks_of(job), job]:
            process.kill()
    assert numbers(out) == numbers(tmp_path / "whole")
    assert lines_of(out) == lines_of(tmp_path / "whole")
    assert not list(out.rglob("*.part"))


def test_what_ranks_cannot_share_is_refused(tmp_path: Path) -> None:
    data = write_folder(planted(60, 60), tmp_path / "data")
    asked = [sys.executable, "-m", "legcf", "train", str(data), "--out", str(tmp_path / "run"), "--workers", "2"]
    told = subprocess.run([*asked, "--method", "full", "--quiet"], capture_output=True, text=True, timeout=PATIENCE)
    assert told.returncode == 2
    sentence = told.stderr.splitlines()[-1]
    assert sentence.startswith("legcf: Backbone lightgcn propagates this layer over the whole graph at every step")
    assert "--workers" in sentence
    assert not (tmp_path / "run").exists()


def wait_for_rank(job: subprocess.Popen[bytes], out: Path, lines: int, gone: set[int], rank: int) -> psutil.Process:
    """One of two ranks that are both new, once the run has reported this much."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and job.poll() is None:
        new = [one for one in ranks_of(job) if one.pid not in gone]
        if len(new) == 2 and lines_of(out) >= lines and (lines == 0 or out.exists()):
            return new[rank]
        time.sleep(0.02)
    raise AssertionError(f"the job was not there to be hit: {job.poll()}")


def ranks_of(job: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The job's launcher starts them."""
    try:
        launchers = psutil.Process(job.pid).children()
        return sorted((one for each in launchers for one in each.children()), key=lambda one: one.pid)
    except psutil.NoSuchProcess:
        return []


def lines_of(out: Path) -> int:
    path = out / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0
