# SPDX-License-Identifier: Apache-2.0
"""`legcf recommend`: one user, some, all; printed, as JSON, or in a file."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.typed import legcf, refused
from tests.helpers import planted


def test_one_user(run: Path) -> None:
    answer = legcf("recommend", run, "--user", 7, "-k", 5, "--json")
    rows = json.loads(answer.out)["recommendations"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert {row["user"] for row in rows} == {7}
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert not {row["item"] for row in rows} & set(planted(40, 40).train.of(7).tolist())


def test_a_table_for_people(run: Path) -> None:
    answer = legcf("recommend", run, "-u", 7, "-u", 9, "-k", 2)
    assert answer.code == 0
    assert "For user 7" in answer.out
    assert "For user 9" in answer.out


def test_seen_items_only_when_asked(run: Path) -> None:
    every = json.loads(legcf("recommend", run, "--user", 7, "-k", 40, "--include-seen", "--json").out)
    assert len(every["recommendations"]) == 40
    unseen = json.loads(legcf("recommend", run, "--user", 7, "-k", 40, "--json").out)
    assert len(unseen["recommendations"]) == 30  # ten pairs are known, whichever part they are in


@pytest.mark.parametrize(
    ("ending", "read"), [("parquet", pl.read_parquet), ("csv", pl.read_csv), ("jsonl", pl.read_ndjson)]
)
def test_many_users_into_a_file(ending: str, read: object, run: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("3\n\n 11 \n")
    path = tmp_path / f"recs.{ending}"
    answer = legcf("recommend", run, "--users", tmp_path / "users.txt", "--output", path, "-k", 4)
    assert answer.code == 0, answer.err
    frame = read(path)  # type: ignore[operator]
    assert frame.columns == ["user", "rank", "item", "score", "fallback"]
    assert frame["user"].to_list() == [3] * 4 + [11] * 4
    assert {path.name for path in tmp_path.iterdir()} == {"users.txt", f"recs.{ending}"}


def test_all_users_into_a_file(run: Path, tmp_path: Path) -> None:
    answer = legcf("recommend", run, "--output", tmp_path / "recs.parquet", "-k", 3, "--json")
    assert json.loads(answer.out)["rows"] == 120
    assert pl.read_parquet(tmp_path / "recs.parquet")["user"].n_unique() == 40


@pytest.mark.usefixtures("forked_ranks")
def test_two_workers_write_a_part_each(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs"
    told = legcf("recommend", run, "-k", 3, "--output", out, "--workers", 2)
    assert told.code == 0, told.err
    assert "60 recommendations written" in told.out
    assert sorted(path.name for path in out.iterdir()) == [f"part-0000{rank}-of-00002.parquet" for rank in (0, 1)]
    legcf("recommend", run, "--output", tmp_path / "recs.parquet", "-k", 3)
    together = pl.read_parquet(out).sort("user", "rank")
    assert together.drop("score").equals(pl.read_parquet(tmp_path / "recs.parquet").drop("score"))
    assert "such as part-00000-of-00002.parquet" in refused("recommend", run, "--output", out)


def test_a_folder_from_one_process(run: Path, tmp_path: Path) -> None:
    answer = legcf("recommend", run, "--output", tmp_path / "recs", "-k", 3)
    assert answer.code == 0, answer.err
    assert pl.read_parquet(tmp_path / "recs" / "part-00000-of-00001.parquet").height == 120


def test_several_workers_need_a_folder(run: Path, tmp_path: Path) -> None:
    assert "name a folder" in refused("recommend", run, "--output", tmp_path / "recs.csv", "--workers", 2)
    assert "--output FOLDER" in refused("recommend", run, "--user", 7, "--workers", 2)


def test_what_cannot_be(run: Path, tmp_path: Path) -> None:
    assert "Say who to recommend for" in refused("recommend", run)
    assert "Unknown user id 'nobody'" in refused("recommend", run, "--user", "nobody")
    assert "Unknown user id '4000'" in refused("recommend", run, "--user", 4000)
    assert "at least 1" in refused("recommend", run, "--user", 7, "-k", 0)
    assert "list of user ids" in refused("recommend", run, "--users", tmp_path / "missing.txt")
    (tmp_path / "none.txt").write_text("\n")
    assert "no user id" in refused("recommend", run, "--users", tmp_path / "none.txt")
    assert ".parquet" in refused("recommend", run, "--output", tmp_path / "recs.xlsx")
    assert "Cannot write" in refused("recommend", run, "--output", "/proc/recs.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"none.txt"}


def test_strangers_get_what_is_popular_if_asked_for(run: Path, tmp_path: Path) -> None:
    words = ("recommend", run, "-u", "nobody", "-u", 7, "-u", 4000, "-k", 3, "--unknown", "popular")
    rows = json.loads(legcf(*words, "--json").out)["recommendations"]
    assert [row["user"] for row in rows] == ["nobody"] * 3 + ["7"] * 3 + ["4000"] * 3
    assert [row["fallback"] for row in rows] == ["popular"] * 3 + [None] * 3 + ["popular"] * 3
    degrees = planted(40, 40).train.item_degrees
    assert [row["score"] for row in rows[:3]] == sorted(degrees.tolist(), reverse=True)[:3]
    answer = legcf(*words)
    assert "For user nobody: popular items" in " ".join(answer.out.split())
    numbers = json.loads(legcf("recommend", run, "-u", 4000, "-u", 7, "--unknown", "popular", "--json").out)
    assert numbers["recommendations"][-1]["user"] == 7


def test_nothing_is_written_for_an_unknown_user(run: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("3\nnobody\n")
    refused("recommend", run, "--users", tmp_path / "users.txt", "--output", tmp_path / "recs.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"users.txt"}
