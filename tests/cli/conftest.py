# SPDX-License-Identifier: Apache-2.0
"""A small dataset on disk and a run on it, made once for all commands."""

import sys
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest

from legcf.cli import workers
from tests import forked
from tests.cli.typed import legcf
from tests.helpers import planted, write_folder

QUICK = ("--set", "method.c=8", "--set", "method.dim=8", "--set", "training.batch_size=200", "--epochs", "2", "--quiet")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(40, 40), tmp_path_factory.mktemp("data") / "planted")


@pytest.fixture(scope="session")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    answer = legcf("train", folder, "--out", out, "--seed", 3, "--preset", "paper", *QUICK)
    assert answer.code == 0, answer.err
    return out


@pytest.fixture
def forked_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--workers` forks ranks, which need not wait for imports, in place of torch's launcher and what it starts."""

    def run(command: list[str], env: dict[str, str]) -> "CompletedProcess[str]":
        assert command[:3] == [sys.executable, "-m", "legcf.cli.workers"]
        out, err = tmp_path / "ranks.out", tmp_path / "ranks.err"
        own = {name: value for name, value in env.items() if name.startswith("LEGCF_")}
        ranks = forked.ranks(forked.run_as_rank, str(out), own, command[4:], count=int(command[3]), log=err)
        code = max(rank.wait(120) for rank in ranks)
        print(out.read_text(), end="")
        print(err.read_text(), end="", file=sys.stderr)
        return CompletedProcess(command, code)

    monkeypatch.setattr(workers, "subprocess", SimpleNamespace(run=run))
