# SPDX-License-Identifier: Apache-2.0
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf_studies.paper.store import STORE_VERSION, ResultStore
from legcf_studies.workers.process import Outcome
from studies.tests.paper.tiny import pretend_finished, runs


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "store.sqlite")


class TestStates:
    def test_a_run_is_begun_fails_and_is_begun_again(self, store: ResultStore) -> None:
        run = runs()[0]
        assert store.status(run.key) == ("missing", None)
        store.begin(run, "planted", "1")
        assert store.status(run.key) == ("running", None)
        store.fail(run.key, "No.")
        assert store.status(run.key) == ("failed", "No.")
        store.begin(run, "planted", "1")
        assert store.status(run.key) == ("running", None)
        assert store.rows()[run.key].attempts == 2

    def test_a_run_is_stopped(self, store: ResultStore) -> None:
        run = runs()[0]
        store.begin(run, "planted", "1")
        store.release(run.key)
        assert store.status(run.key)[0] == "stopped"

    def test_what_is_finished_stays_so(self, store: ResultStore) -> None:
        run = runs()[0]
        pretend_finished(store, run, 0.5)
        store.fail(run.key, "No.")
        store.release(run.key)
        assert store.status(run.key) == ("finished", None)


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
        store.begin(run, "planted", "1")
        store.finish(run.key, Outcome(state=b"codebook"), "")
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
        assert store.status(second.key)[0] == "finished"
        assert store.take_in(written) == 0
