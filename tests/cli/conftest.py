# SPDX-License-Identifier: Apache-2.0
"""A small dataset on disk and a run on it, made once for all commands."""

from pathlib import Path

import pytest

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
