# SPDX-License-Identifier: Apache-2.0
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from legcf.errors import UserError
from legcf.experiments import store as store_module
from legcf.experiments.store import STORE_VERSION, ResultStore, owner_mark
from tests.experiments.tiny import pretend_finished, runs

_RIVALS = """
import os, sys
from pathlib import Path
from legcf.experiments.store import ResultStore
from tests.experiments.tiny import runs
for _ in range(4):  # one process imports, and its forks claim
    if os.fork() == 0:
        print(ResultStore(Path(sys.argv[1])).claim(runs()[0], "planted", "1", 0), flush=True)
        sys.stdin.read()
        os._exit(0)
for _ in range(4):
    os.wait()
"""


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "store.sqlite")


def as_owner(store: ResultStore, key: str, owner: str, renewed: float) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE runs SET owner = ?, renewed = ? WHERE key = ?", (owner, renewed, key))


class TestClaims:
    def test_a_run_is_claimed_once(self, store: ResultStore) -> None:
        run = runs()[0]
        assert store.claim(run, "planted", "1", 0)
        assert not ResultStore(store.path).claim(run, "planted", "1", 0)
        assert store.renew(run.key)

    def test_only_one_of_many_processes_gets_it(self, store: ResultStore) -> None:
        words = [sys.executable, "-c", _RIVALS, str(store.path)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rivals:
            assert rivals.stdout is not None
            won = [rivals.stdout.readline().strip() for _ in range(4)]
            rivals.communicate(timeout=60)  # nobody leaves before all have tried: who is gone has no claim any more
        assert sorted(won) == ["False", "False", "False", "True"]

    def test_finished_is_never_taken_again(self, store: ResultStore) -> None:
        run = runs()[0]
        pretend_finished(store, run, 0.5)
        assert not store.claim(run, "planted", "1", time.time() + 100)

    def test_failed_is_taken_again_by_a_later_command_only(self, store: ResultStore) -> None:
        run, began = runs()[0], time.time()
        store.claim(run, "planted", "1", began)
        store.fail(run.key, "No.")
        assert store.status(run.key) == ("failed", "No.")
        assert not store.claim(run, "planted", "1", began)
        assert store.claim(run, "planted", "1", time.time() + 1)
        assert store.rows()[run.key].attempts == 2

    def test_stopped_may_go_on(self, store: ResultStore) -> None:
        run = runs()[0]
        store.claim(run, "planted", "1", 0)
        store.release(run.key)
        assert store.claim(run, "planted", "1", 0)

    def test_claim_of_a_process_that_is_gone(self, store: ResultStore) -> None:
        run = runs()[0]
        store.claim(run, "planted", "1", 0)
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        host = owner_mark().rsplit(" ", 2)[0]
        as_owner(store, run.key, f"{host} {ended.pid} {time.time():.2f}", time.time())
        assert store.claim(run, "planted", "1", 0)

    def test_a_process_number_used_again_is_another_process(self, store: ResultStore) -> None:
        run = runs()[0]
        store.claim(run, "planted", "1", 0)
        host = owner_mark().rsplit(" ", 2)[0]
        as_owner(store, run.key, f"{host} {os.getpid()} 1000.00", time.time())
        assert store.claim(run, "planted", "1", 0)

    def test_claim_of_another_machine_ends_when_it_is_not_renewed(self, store: ResultStore) -> None:
        run = runs()[0]
        store.claim(run, "planted", "1", 0)
        as_owner(store, run.key, "elsewhere 1 1.00", time.time())
        assert not store.claim(run, "planted", "1", 0)
        as_owner(store, run.key, "elsewhere 1 1.00", time.time() - store_module.STALE_SECONDS - 1)
        assert store.claim(run, "planted", "1", 0)
        assert store.renew(run.key)


class TestContents:
    def test_per_user_values_come_back(self, store: ResultStore) -> None:
        run = runs()[0]
        pretend_finished(store, run, 0.5)
        row, per_user = store.rows()[run.key], store.per_user(run.key)
        assert row.status == "finished"
        assert row.seconds == pytest.approx(4.0)
        assert per_user["ndcg@20"].dtype == np.float32
        assert float(per_user["ndcg@20"].mean()) == pytest.approx(row.metrics["test"]["ndcg@20"])

    def test_state_comes_back(self, store: ResultStore) -> None:
        run = runs()[0]
        store.claim(run, "planted", "1", 0)
        store.finish(run.key, {}, [], {}, {}, "", b"codebook")
        assert store.state(run.key) == b"codebook"
        assert store.state("other") is None


class TestBadFiles:
    def test_another_version(self, store: ResultStore) -> None:
        with sqlite3.connect(store.path) as connection:
            connection.execute(f"PRAGMA user_version = {STORE_VERSION + 1}")
        with pytest.raises(UserError, match="store version 2, this legcf reads 1"):
            ResultStore(store.path)

    def test_database_of_something_else(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "other.sqlite") as connection:
            connection.execute("CREATE TABLE cats (name TEXT)")
        with pytest.raises(UserError, match="something else"):
            ResultStore(tmp_path / "other.sqlite")

    def test_no_database_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("hello " * 100)
        with pytest.raises(UserError, match="cannot be used as a results store"):
            ResultStore(tmp_path / "text")

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no results store"):
            ResultStore.existing(tmp_path / "none")


class TestTakenIn:
    def test_rows_of_another_store(self, store: ResultStore, tmp_path: Path) -> None:
        first, second = runs()
        other = ResultStore(tmp_path / "other.sqlite")
        pretend_finished(other, first, 0.5)
        pretend_finished(other, second, 0.4)
        other.remember_study("ablation", "planted", "quick", {"seeds": 1, "rows": []})
        pretend_finished(store, first, 0.3)
        written = [row.to_json() for row in other.rows().values()]
        assert store.take_in(written, other.studies()) == 1
        assert store.rows()[second.key] == other.rows()[second.key]
        assert store.rows()[first.key].metrics["test"]["ndcg@20"] < 0.4, "its own row stays"
        assert store.studies() == other.studies()
        assert not store.claim(second, "planted", "1", time.time() + 100)
        assert store.take_in(written) == 0
