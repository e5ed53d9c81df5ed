# SPDX-License-Identifier: Apache-2.0
"""`legcf update` as it is typed."""

import json
from pathlib import Path

import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.server.state.event_log import EventLog, LogMark
from legcf.server.state.log_entries import new_event
from tests.cli.typed import legcf, refused

TABLE = ("--method", "full", "--preset", "items", "--dim", 8, "--quiet",
         "--set", "ranking.bytes=20000", "--set", "ranking.bits=4", "--set", "ranking.lists=null")  # fmt: skip


@pytest.fixture(scope="module")
def updatable(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "table"
    answer = legcf("train", folder, "--out", out, *TABLE)
    assert answer.code == 0, answer.err
    return out


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text("user,item\n" + "".join(f"{user},{100 + user % 4}\n" for user in range(20)) + "77,3\n77,7\n")
    return path


def test_writes_a_run_like_any_other(updatable: Path, new: Path, tmp_path: Path) -> None:
    out = tmp_path / "updated"
    answer = legcf("update", updatable, new, "--out", out)
    assert answer.code == 0, answer.err
    assert "items solved again" in answer.out
    assert "retraining is due below 97%" in answer.out
    found = json.loads(legcf("evaluate", out, "--json").out)["metrics"]
    assert found == pytest.approx(json.loads((out / "metrics.json").read_text())["test"])
    shown = json.loads(legcf("recommend", out, "--user", 77, "--json").out)
    assert shown
    assert legcf("info", out).code == 0
    assert legcf("export", out, tmp_path / "model.legcf", "--quiet").code == 0
    again = json.loads(legcf("update", out, new, "--out", tmp_path / "again", "--json").out)
    told = json.loads((out / "metrics.json").read_text())["updated"]
    assert again["updated"] == told
    assert told["new_items"] == 4
    assert told["new_users"] == 1


def test_what_can_go_wrong_leaves_nothing_behind(updatable: Path, run: Path, new: Path, tmp_path: Path) -> None:
    out = tmp_path / "updated"
    assert "cannot be updated" in refused("update", run, new, "--out", out)
    assert "not empty" in refused("update", updatable, new, "--out", updatable)
    bad = tmp_path / "bad.csv"
    bad.write_text("user,item\n1,\n")
    assert "item id" in refused("update", updatable, bad, "--out", out)
    assert "looks like item ids" in refused("update", updatable, _without_items(tmp_path), "--out", out)
    assert legcf("update", updatable, new, "--out", out, "--threshold", 3).code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "new.csv", "users.csv"]


def _without_items(folder: Path) -> Path:
    path = folder / "users.csv"
    path.write_text("user,note\n1,a\n")
    return path


def test_events_of_a_server_are_taken_once(updatable: Path, tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log", create=True)
    log.write([[new_event(str(user), str(100 + user % 4)) for user in range(20)], [new_event("77", "3")]])
    first = tmp_path / "first"
    answer = legcf("update", updatable, "--events", tmp_path / "log", "--out", first, "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert (told["updated"]["pairs"], told["updated"]["new_users"], told["updated"]["new_items"]) == (21, 1, 4)
    assert LogMark.from_card(told) == log.end()
    assert "no event that the model does not know" in refused(
        "update", first, "--events", tmp_path / "log", "--out", tmp_path / "x"
    )
    log.write([[new_event("78", "3"), new_event("78", "7")]])
    again = legcf("update", first, "--events", tmp_path / "log", "--out", tmp_path / "second", "--json")
    assert json.loads(again.out)["updated"]["pairs"] == 23
    model = tmp_path / "model.legcf"
    assert legcf("export", tmp_path / "second", model, "--users", "history", "--no-evaluate", "-q").code == 0
    assert LogMark.from_card(ServedModel.load(model).card) == log.end()
    (tmp_path / "new.csv").write_text("user,item\n79,3\n79,7\n")  # the mark stays with later updates
    later = legcf("update", tmp_path / "second", tmp_path / "new.csv", "--out", tmp_path / "third", "--json")
    assert LogMark.from_card(json.loads(later.out)) == log.end()
