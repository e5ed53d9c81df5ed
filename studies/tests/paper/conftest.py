# SPDX-License-Identifier: Apache-2.0
"""Planted communities on disk."""

import json
import os
import sys
from pathlib import Path

import pytest

from legcf_studies.paper import scheduler
from legcf_studies.workers.process import WorkerJob, work
from tests.forked import Forked
from tests.helpers import planted, write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(40, 40), tmp_path_factory.mktemp("data") / "planted")


@pytest.fixture
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a run need not wait for imports; other tests start those that users have."""

    def started(job: WorkerJob, threads: int, log: Path) -> Forked:
        return Forked(_work, job.to_json(), log=log)

    monkeypatch.setattr(scheduler, "started", started)


def _work(text: str) -> None:
    sys.exit(work(WorkerJob(**{**json.loads(text), "parent": os.getppid()})))
