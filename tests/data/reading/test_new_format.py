# SPDX-License-Identifier: Apache-2.0
"""A data format is one file and one line, as CONTRIBUTING.md says: a toy one, through the command line."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from legcf.data.reading.formats import FORMATS
from legcf.testing.formats import FormatContract
from tests.cli.conftest import QUICK
from tests.cli.typed import legcf, refused

THE_FILE = '''
"""Lines of `user likes item`."""

from dataclasses import dataclass

import polars as pl

from legcf.data.reading.compressed import lines
from legcf.data.reading.formats.base import Format


@dataclass(frozen=True)
class Likes(Format):
    def scan(self, source, names):
        fields = pl.col("line").str.split_exact(" likes ", 1).struct
        user, item = fields.field("field_0").alias("user"), fields.field("field_1").alias("item")
        return pl.scan_lines(source).select(user, item)

    def rows(self, path, names):
        for number, line in enumerate(lines(path), 1):
            user, _, item = line.decode().partition(" likes ")
            yield number, {"user": user, "item": item or None}


LIKES = Likes("likes")
'''
PAIRS = [(f"ann-{user}", f"tea-{item}") for user in range(12) for item in range(10) if (user + item) % 3]


@pytest.fixture
def likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a_new_format.py").write_text(THE_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FORMATS, ".likes", importlib.import_module("a_new_format").LIKES)  # the line
    path = tmp_path / "shop.likes"
    path.write_text("".join(f"{user} likes {item}\n" for user, item in PAIRS))
    return path


@pytest.mark.usefixtures("likes")
class TestLikes(FormatContract):
    suffix = ".likes"

    def write(self, path: Path, pairs: Sequence[tuple[str, str]]) -> None:
        path.write_text("".join(f"{user} likes {item}\n" for user, item in pairs))


def test_a_new_format_is_prepared_trained_on_and_recommended_from(likes: Path, tmp_path: Path) -> None:
    same = tmp_path / "shop.csv"
    same.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in PAIRS))
    hashes = set()
    for path in (likes, same):
        answer = legcf("data", "prepare", path, tmp_path / f"{path.name}-ready", "--json", "-q")
        assert answer.code == 0, answer.err
        hashes.add(json.loads(answer.out)["content_hash"])
    assert len(hashes) == 1
    answer = legcf("train", likes, "--out", tmp_path / "run", *QUICK)
    assert answer.code == 0, answer.err
    assert "shop: 80 rows → 12 users, 10 items, 80 pairs" in answer.out
    answer = legcf("recommend", tmp_path / "run", "--user", "ann-3", "-k", 2, "--json")
    assert {row["item"] for row in json.loads(answer.out)["recommendations"]} <= {item for _, item in PAIRS}


def test_problems_in_a_new_format_have_a_line(likes: Path) -> None:
    likes.write_text(likes.read_text() + "bob hates tea-1\n")
    assert "shop.likes, line 81 has no item id" in refused("data", "info", likes)
