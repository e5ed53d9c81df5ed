# SPDX-License-Identifier: Apache-2.0
"""Files of every kind of nonsense: each loads or is refused with a UserError, never with anything else.

Ten thousand files: each of 2 × 250 examples is 20 small files, right in their format but for a few damaged places.
"""

import gzip
import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.source import load_data

NAMES = (
    "a.csv",
    "a.tsv",
    "a.jsonl",
    "a.inter",
    "a.dat",
    "a.data",
    "a.csv.gz",
    "train.txt",
    "a.item",
    "a.zip",
    "a.json",
)
FILES_AN_EXAMPLE = 20
FIELDS = (
    *("0", "1", "2", "3", "4", "5", "-1", "007", "1e5", "1.5", "nan", "inf", "", "null", "true", "+3", "x", "ä", "𝔘"),
    *(
        "9007199254740993",
        "18446744073709551615",
        "99999999999999999999999",
        "2020-01-01",
        "01/12/2020",
        '"',
        '""',
        '"a"',
        "a\tb",
    ),
)
PIECES = [
    *(
        b'"',
        b"\\",
        b"'",
        b",",
        b";",
        b"\t",
        b"|",
        b"::",
        b":",
        b" ",
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(b"{", b"}", b"[", b"]", b"PAR1", b"\x1f\x8b", b"PK\x03\x04", b"1", b"-", b".", b"nan", "ö".encode("latin-1")),
]
HEADERS = (
    ["user", "item"],
    ["user", "item", "rating"],
    ["userId", "movieId", "rating", "timestamp"],
    ["item", "title"],
)
DELIMITERS = {"a.csv": ",", "a.csv.gz": ",", "a.dat": "::", "train.txt": " "}
CHOICES = (
    DataOptions(),
    DataOptions(k_core=1),
    DataOptions(cold="keep", duplicates="merge"),
    DataOptions(protocol="temporal", min_rating=1),
    DataOptions(protocol="leave-last-out", delimiter=";", k_core=2),
    DataOptions(user_col="user", item_col="item", duplicates="error", delimiter="::"),
    DataOptions(header=False, protocol="temporal", time_col="2"),
    DataOptions(header=True, protocol="leave-last-out", date_format="%d/%m/%Y"),
)


def contents(name: str, rng: np.random.Generator) -> bytes:
    """A small file that is right in its format, then damaged in up to two places."""
    header = HEADERS[rng.integers(len(HEADERS))]
    some = FIELDS[: 6 if rng.random() < 0.7 else len(FIELDS)]
    rows = [[some[place] for place in rng.integers(0, len(some), len(header))] for _ in range(rng.integers(0, 7))]
    content = written(name, header, rows)
    for _ in range(rng.integers(0, 3)):
        place = int(rng.integers(0, len(content) + 1))
        content = content[:place] + PIECES[rng.integers(len(PIECES))] + content[place + int(rng.integers(0, 3)) :]
    return content


def written(name: str, header: list[str], rows: list[list[str]]) -> bytes:
    if name == "a.zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.csv", written("a.csv", header, rows))
        return file.getvalue()
    if name in ("a.jsonl", "a.json"):
        return "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows).encode()
    if name == "a.parquet":
        file = io.BytesIO()
        pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row").write_parquet(file)
        return file.getvalue()
    if name in ("a.inter", "a.item"):
        header = [f"{column}:token" for column in header]
    lines = rows if name in ("a.dat", "a.data", "train.txt") else [header, *rows]
    return "".join(DELIMITERS.get(name, "\t").join(line) + "\n" for line in lines).encode()


def attempt(path: Path, options: DataOptions) -> None:
    with suppress(UserError):
        load_data(path, options)


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES[::2], NAMES[1::2]], ids=["one half", "other half"])
@settings(max_examples=250)
@given(seed=st.integers(0, 2**32 - 1))
def test_ten_thousand_files_without_a_traceback(
    names: tuple[str, ...], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for _ in range(FILES_AN_EXAMPLE):
        name = names[rng.integers(len(names))]
        content = contents(name, rng)
        if name.endswith(".gz") and rng.random() < 0.8:
            content = gzip.compress(content)[: None if rng.random() < 0.5 else -int(rng.integers(1, 9))]
        (folder / name).unlink(missing_ok=True)  # to write over a file takes some file systems ten times as long
        (folder / name).write_bytes(content)
        path = folder if name == "train.txt" else folder / name
        attempt(path, CHOICES[rng.integers(len(CHOICES))])


def test_damaged_parquet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each takes a process of its own, so they are few here and many in `make fuzz`."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        (tmp_path / "a.parquet").write_bytes(contents("a.parquet", rng))
        attempt(tmp_path / "a.parquet", DataOptions())
    assert "panicked" not in capfd.readouterr().err


@settings(max_examples=200)
@given(content=st.binary(max_size=60), name=st.sampled_from([*NAMES, "a.parquet"]))
def test_arbitrary_bytes(content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    attempt(folder if name == "train.txt" else folder / name, DataOptions())
