# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with data is said in a sentence that names the file and the line or column."""

import gzip
import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.config import validated
from legcf.core.errors import UserError
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.reading import compressed
from legcf.data.source import Location, load_data, prepare_source
from tests.data.files import write_lightgcn

# name of the file, its content, and what the sentence must say
TABLES: dict[str, tuple[str, bytes, str]] = {
    "empty file": ("a.csv", b"", "is empty"),
    "only blank lines": ("a.csv", b"\n\n", "a.csv"),
    "header only": ("a.csv", b"user,item\n", "holds no interactions"),
    "missing column": ("a.csv", b"user,thing\n1,2\n", "no column that looks like item ids"),
    "no header": ("a.csv", b"1,2\n3,4\n", "user_col"),
    "missing user id": ("a.csv", b"user,item\n1,2\n,3\n", "line 3 has no user id"),
    "missing item id": ("a.tsv", b"user\titem\n1\t\n", "line 2 has no item id"),
    "id NaN among numbers": ("a.csv", b"user,item\n1,2\nnan,3\n", "line 3 has NaN for a user id"),
    "line too long": ("a.csv", b"user,item\n1,2\n3,4,5\n6,7\n", "line 3 has 3 fields where the first line has 2"),
    "line too long, other column": ("a.csv", b"user,x,item\n1,a,2\n3,b,4,5\n", "line 3 has 4 fields"),
    "line too short": ("a.csv", b"user,item\n1,2\n3\n", "line 3 has 1 fields"),
    "wrong delimiter": ("a.csv", b"user;item\n1;2\n", "delimiter=';'"),
    "tabs in a csv": ("a.csv", b"user\titem\n1\t2\n", "delimiter="),
    "mixed encodings": ("a.csv", "user,item\nä,1\n".encode() + "ö,2\n".encode("latin-1"), "line 3 holds a byte"),
    "UTF-16": ("a.csv", "user,item\n1,2\n".encode("utf-16"), "UTF-16"),
    "NUL byte": ("a.csv", b"user,item\n1,2\n3,\x004\n", "line 3 holds a NUL byte"),
    "quotation mark not closed": ("a.csv", b'user,item\n1,"2\n3,4\n', "line 2"),
    "quotation mark inside": ("a.csv", b'user,item\n1,2\n3,"4"5\n', "line 3"),
    "broken JSON": ("a.jsonl", b'{"user":1,"item":2}\n{"user":1,\n', "line 2 is not JSON"),
    "JSON that is no object": ("a.jsonl", b'{"user":1,"item":2}\n[1]\n', "line 2 is not a JSON object"),
    "JSON without id": ("a.jsonl", b'{"user":1,"item":2}\n{"item":2}\n', "line 2 has no user id"),
    "not Parquet": ("a.parquet", b"PAR1 certainly not", "a.parquet"),
    "truncated gzip": ("a.csv.gz", gzip.compress(b"user,item\n" + b"1,2\n" * 5000)[:-20], "cut off"),
    "bomb of zeros": ("a.csv.gz", gzip.compress(bytes(4 << 20)), "line 1 is longer than 1 MiB"),
    "not gzip": ("a.csv.gz", b"user,item\n1,2\n3,\n", "a.csv.gz"),
    "fields of :: too few": ("a.dat", b"1::2::3::4\n1::3\n", "line 2 has 2 fields where the first line has 4"),
    "fields of :: too many": ("a.dat", b"1::2::3::4\n1::3::4::5::6\n", "line 2 has 5 fields"),
    "two columns of users": ("a.csv", b"user,user,item\n1,2,3\n", "two columns 'user'"),
    "two columns of items": ("a.csv", b"user,item,item\n1,2,3\n", "two columns 'item'"),
    "unknown suffix": ("a.docx", b"user,item\n1,2\n", "suffix"),
}

RATINGS = {
    "non-numeric rating": (b"1,2,3\n1,3,good\n", "line 3 has 'good' where a rating"),
    "rating NaN": (b"1,2,3\n1,3,NaN\n", "line 3 has 'NaN' where a rating"),
    "rating missing": (b"1,2,\n", "line 2 has None where a rating"),
}

WEIGHTS = {
    "weight that is no number": (b"1,2,3\n1,3,good\n", "line 3 has 'good' where a positive weight should be"),
    "weight NaN": (b"1,2,3\n1,3,NaN\n", "line 3 has 'NaN' where a positive weight"),
    "weight missing": (b"1,2,\n", "line 2 has None where a positive weight"),
    "weight below zero": (b"1,2,3\n1,3,-1\n", "line 3 has '-1' where a positive weight"),
    "weight without end": (b"1,2,3\n1,3,inf\n", "line 3 has 'inf' where a positive weight"),
}

FOLDERS: dict[str, tuple[bytes, bytes, str]] = {
    "empty train": (b"", b"", "train.txt holds no interactions"),
    "only users": (b"1\n2\n", b"", "train.txt holds no interactions"),
    "not a number": (b"1 2 3\n1 x\n", b"", "train.txt, line 2 holds something that is not a number"),
    "a fraction": (b"1 2.5\n", b"", "train.txt, line 1"),
    "negative id": (b"1 2\n", b"1 3\n1 -4\n", "test.txt, line 2 holds a negative number"),
    "huge id": (b"1 2\n\n3 99999999999999999999\n", b"", "train.txt, line 3 holds a number that does not fit"),
    "NUL byte": (b"1 2\n3 \x00\n", b"", "train.txt, line 2 holds a NUL byte"),
    "not ASCII": ("1 2\n3 ４\n".encode(), b"", "train.txt, line 2 holds a byte"),
    "duplicate pair": (b"1 2 3\n1 4 2\n", b"", "train.txt, line 2: item 2 of user 1 is there more than once"),
    "pair in both": (b"1 2 3\n", b"1 3\n", "test.txt, line 1: item 3 of user 1 is both in train.txt and in test.txt"),
    "test user unseen": (b"1 2 3\n", b"1\n9 2\n", "test.txt, line 2: user 9 has no train items"),
    "test item unseen": (b"1 2 3\n", b"1 8\n", "test.txt, line 1: item 8 is not in train.txt"),
    "user without items": (b"1 2 3\n5\n", b"", "train.txt, line 2: user 5 has no train items"),
}


@pytest.mark.parametrize("case", TABLES)
def test_bad_table(case: str, tmp_path: Path) -> None:
    name, content, said = TABLES[case]
    (tmp_path / name).write_bytes(content)
    _refused(tmp_path / name, said, tmp_path)


@pytest.mark.parametrize("case", RATINGS)
def test_bad_ratings_matter_where_ratings_are_used(case: str, tmp_path: Path) -> None:
    rows, said = RATINGS[case]
    (tmp_path / "a.csv").write_bytes(b"user,item,rating\n" + rows)
    _refused(tmp_path / "a.csv", said, tmp_path, DataOptions(min_rating=1))
    assert load_data(tmp_path / "a.csv").num_users == 1


@pytest.mark.parametrize("case", WEIGHTS)
def test_bad_weights(case: str, tmp_path: Path) -> None:
    rows, said = WEIGHTS[case]
    (tmp_path / "a.csv").write_bytes(b"user,item,plays\n" + rows)
    _refused(tmp_path / "a.csv", said, tmp_path, DataOptions(weight_col="plays"))


def test_one_column_cannot_be_two(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"user,item,item_id,rating,rating\n1,2,3,4,5\n")
    said = "column 'item' cannot hold users and items"
    _refused(tmp_path / "a.csv", said, tmp_path, DataOptions(user_col="item"))
    _refused(tmp_path / "a.csv", "two columns 'rating'", tmp_path, DataOptions(rating_col="rating", min_rating=1))
    assert load_data(tmp_path / "a.csv").num_items == 1


@pytest.mark.parametrize("case", FOLDERS)
def test_bad_folder(case: str, tmp_path: Path) -> None:
    train, test, said = FOLDERS[case]
    _refused(write_lightgcn(tmp_path / "graph", train, test), said, tmp_path)


def _refused(source: Path, said: str, folder: Path, options: DataOptions = DEFAULTS) -> None:
    with pytest.raises(UserError) as caught:
        load_data(source, options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    before = sorted(folder.iterdir())
    with pytest.raises(UserError):
        prepare_source(source, folder / "out", options, quiet=True)
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_unpacks_to_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 1 << 20)
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 2 << 20)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "train.txt.gz").write_bytes(gzip.compress(bytes(8 << 20)))
    _refused(tmp_path / "graph", "has a line of more than 2 MiB", tmp_path)


def test_missing_things(tmp_path: Path) -> None:
    sources: list[Location] = [tmp_path / "no.csv", str(tmp_path / "none-*.csv"), "no-such-dataset", tmp_path, []]
    for source in sources:
        with pytest.raises(UserError):
            load_data(source)
    with pytest.raises(UserError, match=r"without train\.txt"):
        load_data(tmp_path)
    with pytest.raises(UserError, match="known are gowalla"):
        load_data("no-such-dataset")


def test_byte_order_mark_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfuser,item\n1,2\n1,3\n")
    assert load_data(path).users.values.tolist() == [1]
    folder = write_lightgcn(tmp_path / "graph", b"\xef\xbb\xbf1 2 3\n", b"")
    assert load_data(folder).users.values.tolist() == [1]


def test_blank_lines_are_harmless(tmp_path: Path) -> None:
    for name, content in (
        ("a.csv", "user,item\n1,2\n\n3,4\n\n"),
        ("a.dat", "1::2\n\n3::4\n"),
        ("b.csv", "user,item,r\n1,2,\n\n3,4,\n"),
    ):
        (tmp_path / name).write_text(content)
        assert load_data(tmp_path / name).users.values.tolist() == [1, 3]


def test_ids_must_be_integers_or_text() -> None:
    with pytest.raises(UserError, match="column 'user' has the type Float64"):
        load_data(pl.DataFrame({"user": [1.0, 1.5], "item": [1, 2]}))
    with pytest.raises(UserError, match=r"has no user id in 1 rows \(null or NaN\); .* `missing='drop'`"):
        load_data(pl.DataFrame({"user": [1, None], "item": [1, 2]}))
    rated = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [1.0, float("nan")]})
    with pytest.raises(UserError, match="no number for a rating"):
        load_data(rated, DataOptions(min_rating=1))
    assert load_data(rated).num_users == 2


def test_protocols_that_do_not_suit_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item\n1,2\n1,3\n")
    for protocol, said in (
        ("legcf", "protocol='ratio'"),
        ("ngcf", "protocol='ratio'"),
        ("leave-last-out", "`time_col`"),
        ("temporal", "`time_col`"),
        ("other", "choose one of leave-last-out"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            load_data(path, DataOptions(protocol=protocol))


def test_times_that_are_no_times(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item,time\n1,2,1\n1,3,soon\n")
    with pytest.raises(UserError, match=r"a\.csv, line 3 has 'soon' where a time should be, and others are numbers"):
        load_data(path, DataOptions(protocol="temporal"))
    path.write_text("user,item,time\n1,2,1\n1,3,\n")
    with pytest.raises(UserError, match="line 3"):
        load_data(path, DataOptions(protocol="temporal"))


def test_options_that_do_not_fit() -> None:
    for given, said in (
        ({"k_core": -1}, "k_core"),
        ({"colour": "red"}, "colour"),
        ({"validation_ratio": 0.6, "test_ratio": 0.5}, "below 1"),
        ({"cold": "melt"}, "cold"),
        ({"min_rating": float("nan")}, "min_rating"),
    ):
        with pytest.raises(UserError, match=said):
            validated(DataOptions, given, "data")


def test_archives_are_opened_with_care(tmp_path: Path) -> None:
    good = tmp_path / "good.zip"
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("graph/train.txt", "1 2 3\n2 2\n")
        archive.writestr("graph/test.txt", "2 3\n")
    assert load_data(good).num_users == 2

    leading_out = tmp_path / "out.zip"
    with zipfile.ZipFile(leading_out, "w") as archive:
        archive.writestr("../train.txt", "1 2 3\n")
    _refused(leading_out, "leads out of its folder", tmp_path)

    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.txt", np.zeros(64 << 20, dtype=np.uint8).tobytes())
    _refused(bomb, "would unpack to 67,108,864 bytes", tmp_path)

    broken = tmp_path / "broken.zip"
    broken.write_bytes(good.read_bytes()[:-30])
    _refused(broken, "not a readable zip archive", tmp_path)
