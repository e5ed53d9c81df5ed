"""`legcf update` as it is typed."""

import json
from pathlib import Path

import pytest

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
    assert "training anew is due below 97%" in answer.out
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
