# SPDX-License-Identifier: Apache-2.0
"""Reproductions as typed: killed in the middle, failing, started twice at once, or asked for what is not there."""

import json
import os
import shlex
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from legcf_studies.paper.cells import StudyContext
from legcf_studies.paper.store import ResultStore
from legcf_studies.paper.studies import STUDIES, Study
from studies.tests.paper.tiny import start, tiny_cells
from tests.cli.typed import legcf, refused


def results(out: Path) -> dict[str, Any]:
    rows = json.loads((out / "results.json").read_text())["runs"]
    return {f"{row['cell']}-{row['seed']}": row["metrics"]["test"] for row in rows}


def attempts(out: Path) -> dict[str, int]:
    return {f"{row.cell}-{row.seed}": row.attempts for row in ResultStore(out / "store.sqlite").rows().values()}


def finished(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with sqlite3.connect(store) as connection:
            return int(connection.execute("SELECT count(*) FROM runs WHERE status = 'finished'").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.slow
def test_killed_and_started_again(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was finished is repeated, and the end is that of a reproduction that was left alone."""
    out = tmp_path / "killed"
    log = tmp_path / "log"
    process = start(folder, out, log)
    deadline = time.monotonic() + 240
    while finished(out / "store.sqlite") < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    before = {
        row.key: row.ended for row in ResultStore(out / "store.sqlite").rows().values() if row.status == "finished"
    }
    assert len(before) == 1
    for key in before:  # as if it had been killed before it cleaned up
        (out / "store.sqlite.work" / key[:16] / "run").mkdir(parents=True, exist_ok=True)
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", tiny_cells))
    again = legcf("reproduce", "ablation", "--data", folder, "--out", out, "--workers", 1)
    assert again.code == 0, again.err
    assert again.err.count("has it already") == len(before)
    after = {row.key: row.ended for row in ResultStore(out / "store.sqlite").rows().values()}
    assert before.items() <= after.items()
    assert len(after) == 2
    assert not list((out / "store.sqlite.work").glob("*/*"))
    assert (out / "results.html").exists()
    assert (out / "plots" / "planted-quick-ablation-curves.svg").exists()
    alone = tmp_path / "alone"
    one = start(folder, alone, log)
    while not (alone / "store.sqlite.work").exists() or not finished(alone / "store.sqlite"):
        time.sleep(0.02)
    second = legcf("reproduce", "ablation", "--data", folder, "--out", alone, "--workers", 1)
    assert (second.code, "Another command works on" in second.err) == (2, True), second.err
    assert one.wait(300) == 0, log.read_text()
    assert set(attempts(alone).values()) == {1}
    assert results(out) == results(alone)


@pytest.mark.usefixtures("forked_runs")
def test_failed_runs_are_shown_and_tried_again(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", lambda setting: tiny_cells(setting)[1:]))
    command = ("reproduce", "ablation", "--data", folder, "--out", tmp_path, "--set", "training.loss=hinge")
    first = legcf(*command)
    assert first.code == 1
    assert "'hinge' is not one of" in first.err
    assert "1 runs failed" in first.err
    assert "nothing to compare with" in first.err
    second = legcf(*command, "--json")
    assert second.code == 1
    assert attempts(tmp_path) == {"table-0": 2}
    problems = {line["cell"]: line["problem"] for line in json.loads(second.out)["tables"][0]["lines"]}
    assert problems["missing"] == "method no-such-method is not available"
    assert problems["table"].startswith("failed (seed 0): training.loss = 'hinge'")
    assert "'hinge' is not one of" in (tmp_path / "results.md").read_text()


@pytest.mark.usefixtures("forked_runs")
def test_a_fresh_clone_goes_on_from_its_report(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are kept in the repository, stores are not."""
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", lambda setting: tiny_cells(setting)[1:]))
    command = ("reproduce", "ablation", "--data", folder, "--out", tmp_path)
    planned = legcf(*command, "--plan")
    assert planned.code == 0
    assert "ablation: 1 runs, 0 finished" in planned.out
    assert not (tmp_path / "results.json").exists()
    assert legcf(*command, "--quiet").code == 0
    (tmp_path / "store.sqlite").unlink()
    again = legcf(*command)
    assert "1 runs are taken over" in again.err
    assert "ablation: 1 runs, 1 finished, 0 min to go" in again.err
    assert "has it already" in again.err
    (tmp_path / "results.json").write_text("[]")
    broken = legcf(*command)
    assert broken.code == 2
    assert "no report" in broken.err


@pytest.mark.usefixtures("forked_runs")
def test_one_row_alone(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay in the report, as missing, and the whole goes on from it; commands call the data as typed."""
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", tiny_cells))
    monkeypatch.chdir(folder.parent)
    name, *others = [cell.name for cell in tiny_cells(StudyContext("planted", 40, 40))]
    done = legcf("reproduce", "ablation", "--data", folder.name, "--out", tmp_path, "--row", name, "--json")
    assert done.code == 0, done.err
    (run,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert shlex.split(run["command"])[:3] == ["legcf", "train", folder.name]
    problems = {line["cell"]: line["problem"] for line in json.loads(done.out)["tables"][0]["lines"]}
    assert problems[name] is None
    assert all(problems[other] for other in others)
    planned = legcf("reproduce", "ablation", "--data", folder, "--out", tmp_path, "--plan")
    assert "ablation: 2 runs, 1 finished" in planned.out


class TestBadInput:
    def test_unknown_row(self, tmp_path: Path, folder: Path) -> None:
        answer = legcf("reproduce", "table2", "--data", folder, "--out", tmp_path, "--row", "legcf-9")
        assert answer.code == 2
        assert "table2 has no row `legcf-9`" in answer.err

    def test_unknown_study(self, folder: Path) -> None:
        assert "no study `table9`" in refused("reproduce", "table9", "--data", folder)

    def test_no_seeds(self, folder: Path) -> None:
        assert "--seeds 0" in refused("reproduce", "table2", "--data", folder, "--seeds", 0)

    def test_unknown_preset(self, folder: Path) -> None:
        assert "quick or full" in refused("reproduce", "table2", "--data", folder, "--preset", "slow")

    def test_no_time_and_no_workers(self, folder: Path) -> None:
        assert "--minutes-per-run 0" in refused("reproduce", "table2", "--data", folder, "--minutes-per-run", 0)
        assert "--workers 0" in refused("reproduce", "table2", "--data", folder, "--workers", 0)

    def test_store_of_another_version(self, tmp_path: Path, folder: Path) -> None:
        store = tmp_path / "store.sqlite"
        ResultStore(store).close()
        with sqlite3.connect(store) as connection:
            connection.execute("PRAGMA user_version = 99")
        assert "store version 99" in refused("reproduce", "table2", "--data", folder, "--store", store)

    def test_unknown_data(self, tmp_path: Path) -> None:
        assert "neither a file" in refused("reproduce", "table2", "--data", "nowhere", "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_plan_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    answer = legcf("reproduce", "table2", "--data", folder, "--out", tmp_path / "out", "--plan")
    assert answer.code == 0, answer.err
    assert "23 runs, 0 finished" in answer.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_a_setting_for_all_runs(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches rows that have epochs of their own; the report names the row that is about it."""
    cells = STUDIES["figures"].cells
    monkeypatch.setitem(STUDIES, "figures", Study("Tiny", "table", lambda context: cells(context)[:2]))
    words = ("--set", "training.epochs=1", "--set", "method.dim=8", "--set", "training.batch_size=200")
    answer = legcf("reproduce", "figures", "--data", folder, "--out", tmp_path, "--workers", 1, *words)
    assert answer.code == 0, answer.err
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert {run["cell"]: run["config"]["training"]["epochs"] for run in runs} == {"at-start": 0, "pretrained": 1}
    assert "for all runs but those of initialisation, which are about" in (tmp_path / "results.md").read_text()
