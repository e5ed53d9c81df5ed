# SPDX-License-Identifier: Apache-2.0
"""Reproductions and searches whose trainings are tasks of a real Dask cluster, one worker of which is killed."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from legcf_studies.paper.store import ResultStore
from legcf_studies.paper.studies import STUDIES, Study
from studies.tests.paper.test_reproduce import attempts, results
from studies.tests.paper.tiny import tiny_cells
from tests.cli.commands.test_search import RATES, SMALL, trials
from tests.cli.typed import legcf, refused

if TYPE_CHECKING:
    import distributed


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost_or_done_twice(
    cluster: "distributed.LocalCluster", folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", tiny_cells))
    command = ("reproduce", "ablation", "--data", folder, "--out")
    killed: list[int] = []

    def kill() -> None:
        """Whichever worker has a run under way first."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not killed:
            for nanny in list(cluster.workers.values()):
                if nanny.pid and psutil.Process(nanny.pid).children():
                    os.kill(nanny.pid, signal.SIGKILL)
                    killed.append(nanny.pid)
                    return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    there = legcf(*command, tmp_path / "there", "--scheduler", cluster.scheduler_address)
    killer.join()
    assert there.code == 0, there.err
    assert killed
    lines = [line for line in there.err.splitlines() if line.strip().startswith("finished")]
    assert len(lines) == 2
    assert attempts(tmp_path / "there") == {"on-0": 1, "table-0": 1}
    assert legcf(*command, tmp_path / "here", "--workers", 2, "--quiet").code == 0
    assert results(tmp_path / "there") == results(tmp_path / "here")
    stored = ResultStore(tmp_path / "there" / "store.sqlite")
    for row in stored.rows().values():
        assert set(stored.per_user(row.key)) == {"ndcg@10", "recall@10", "ndcg@20", "recall@20"}
        assert (stored.state(row.key) is not None) == (row.cell == "on")
    again = legcf(*command, tmp_path / "there", "--scheduler", cluster.scheduler_address)
    assert again.err.count("has it already") == 2


@pytest.mark.slow
def test_trials_of_a_search_are_tasks(cluster: "distributed.LocalCluster", folder: Path, tmp_path: Path) -> None:
    words = ("search", folder, "--out", tmp_path, *SMALL, *RATES, "--trials", 3, "--json")
    answer = legcf(*words, "--scheduler", cluster.scheduler_address)
    assert answer.code == 0, answer.err
    tried = [one for one in trials(tmp_path) if one.state.name == "COMPLETE"]
    assert len({one.params["training.learning_rate"] for one in tried}) == len(tried) == 3
    assert json.loads(answer.out)["best"]["validation ndcg@20"] == max(one.value for one in tried if one.value)


def test_bad_input(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    both = ("search", folder, "--out", tmp_path / "new", *SMALL, "--workers", 2, "--scheduler", "tcp://127.0.0.1:1")
    assert "leave them out" in refused(*both)
