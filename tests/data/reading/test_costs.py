# SPDX-License-Identifier: Apache-2.0
"""A small file never costs much: what would take far more time or memory than its size is refused in a sentence."""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.reading.compressed import line_chunks
from legcf.data.reading.item_table import read_features
from legcf.data.reading.vector_table import read_table
from legcf.data.source import load_data

MEGABYTES, SECONDS = 200, 5
COST_PROGRAM = Path(__file__).parent / "cost_program.py"


def zst(content: bytes, path: Path) -> bytes:
    pl.DataFrame({"text": [content.decode()]}).lazy().sink_csv(
        path, include_header=False, quote_style="never", compression="zstd", check_extension=False
    )
    return path.read_bytes()


def wide(columns: int, rows: int = 30) -> bytes:
    return b"".join(b"%d,%d" % (row, row % 7) + b"," * columns + b"\n" for row in range(rows))


def packed(first: bytes, block: bytes, times: int) -> bytes:
    """What gzip makes of `first + block * times`; each block is packed alike, so one is enough."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    parts = [packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for part in (first, block)]
    checksum = zlib.crc32(first)
    for _ in range(times):
        checksum = zlib.crc32(block, checksum)
    head, length = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", len(first) + len(block) * times
    return head + parts[0] + parts[1] * times + packer.flush() + struct.pack("<II", checksum, length)


def rows_in_parquet(rows: int) -> bytes:
    file = io.BytesIO()
    pl.select(user=pl.repeat(1, rows), item=pl.repeat(2, rows)).write_parquet(file, row_group_size=rows)
    return file.getvalue()


def bombs() -> dict[str, tuple[str, bytes, str]]:
    """By what each is: a name, the file and a piece of the sentence that refuses it."""
    return {
        "empty columns": ("a.csv", b"user,item" + b"," * 20_000 + b"\n" + wide(20_000, 3), "20,002 columns"),
        "empty columns, packed": ("b.csv.gz", gzip.compress(b"user,item" + b"," * 100_000 + b"\n1,2\n"), "columns"),
        "CR line ends": ("c.csv", b"user,item\r" + b"".join(b"%d,1\r" % n for n in range(3000)), "CR alone"),
        "CR line ends, no table": ("d.csv", b"user,item\r" + b"u,i\r" * 3000, "CR alone"),
        "one line of gz": ("e.csv.gz", packed(b"user,item\n1,2\n", b"1" * (1 << 20), 300), "unpacks to more than"),
        "many lines of gz": ("f.csv.gz", packed(b"user,item\n", b"1,2\n" * (1 << 18), 300), "unpacks to more than"),
        "integer of 5,000 digits": ("g.jsonl", b'{"user":%s,"item":2}\n' % (b"9" * 5000), "line 1"),
        "keys of JSON": (
            "j.jsonl",
            b"".join(
                b'{"user":%d,"item":%d,%s}\n'
                % (row, row % 7, b",".join(b'"k%d_%d":1' % (row, key) for key in range(100)))
                for row in range(300)
            ),
            "30,002 columns",
        ),
        "rows of Parquet": ("h.parquet", rows_in_parquet(30_000_000), "rows in"),
    }


def test_a_bomb_is_gzip() -> None:
    assert gzip.decompress(packed(b"user,item\n", b"1,2\n" * 9, 5)) == b"user,item\n" + b"1,2\n" * 45


@pytest.mark.skipif(sys.platform == "win32", reason="resource is of Unix")
def test_what_small_files_cost(tmp_path: Path) -> None:
    small = bombs()
    in_zst = zst(b"user,item\n" + b"1,2\n" * (50 << 20), tmp_path / "made.zst")
    small["zst"] = ("i.csv.zst", in_zst, "unpacks to more than")
    for name, content, _ in small.values():
        (tmp_path / name).write_bytes(content)
    names = [str(tmp_path / name) for name, _, _ in small.values()]
    command = [sys.executable, str(COST_PROGRAM), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    for label, line in zip(small, done.stdout.splitlines(), strict=True):
        sentence, seconds, megabytes = json.loads(line)
        assert small[label][2] in sentence, (label, sentence)
        assert max(seconds / SECONDS, megabytes / MEGABYTES) < 1, (label, seconds, megabytes)


@pytest.mark.skipif(sys.platform == "win32", reason="resource is of Unix")
def test_wide_table_of_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"user,item" + b"," * 3000 + b"\n" + wide(3000) + b"\n\n" + wide(3000))
    command = [sys.executable, str(COST_PROGRAM), str(tmp_path / "a.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    sentence, _, megabytes = json.loads(done.stdout)
    assert not sentence
    assert megabytes < 2 * MEGABYTES  # the compiled loops take 100 of them


def test_wide_table_of_features(tmp_path: Path) -> None:
    header = "item," + ",".join(f"f{column}" for column in range(2000))
    rows = [f"{row}," + ",".join(map(str, range(2000))) for row in range(4)]
    (tmp_path / "items.csv").write_text("\n".join([header, *rows[:2], "", *rows[2:]]) + "\n")
    ids, features = read_features(tmp_path / "items.csv")
    assert (len(ids), features.width) == (4, 2000)


@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_json_is_a_text(tmp_path: Path, opened: bytes, closed: bytes) -> None:
    deep = opened * 300 + b"1" + closed * 300
    (tmp_path / "items.jsonl").write_bytes(b"".join(b'{"item":%d,"x":%s}\n' % (row, deep) for row in range(300)))
    started = time.monotonic()
    _, features = read_features(tmp_path / "items.jsonl")
    assert features.schema == {"x": pl.String()}
    assert time.monotonic() - started < SECONDS


def test_text_that_packs_well_is_read(tmp_path: Path) -> None:
    """Rows of one user pack a hundredfold; a bomb a thousandfold."""
    text = "user,item\n" + "".join(f"1,{item}\n" for item in range(200_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert load_data(tmp_path / "a.csv.gz").num_items == 200_000


def test_bomb_of_lightgcn_text(tmp_path: Path) -> None:
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(b"1 2 3\n" * (10 << 20), 9))
    with pytest.raises(UserError, match="unpacks to more than"):
        for _ in line_chunks(tmp_path / "train.txt.gz"):
            pass


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.3:
        return content[: rng.integers(1, len(content))]
    bytes_now = bytearray(content)
    for place in rng.integers(0, len(content), rng.integers(1, 4)):
        bytes_now[place] = rng.integers(256)
    return bytes(bytes_now)


def test_damaged_zst_in_a_sentence(tmp_path: Path) -> None:
    content = zst(b"user,item\n" + b"".join(b"%d,%d\n" % (n % 17, n) for n in range(300)), tmp_path / "made.zst")
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(150):
        for name in ("a.csv.zst", "a.dat.zst", "a.jsonl.zst"):
            path = tmp_path / f"{number}{name}"
            path.write_bytes(damaged(content, rng))
            try:
                load_data(path)
            except UserError:
                refused += 1
    assert refused > 300


def test_parquet_that_ends_its_reader_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a few damaged bytes the reader asks for exabytes and ends the process, so it is tried in another first."""
    file = Path(__file__).parent / "kept" / "exabytes.parquet"
    with pytest.raises(UserError, match=r"\.parquet is damaged"):
        load_data(file)
    with pytest.raises(UserError, match=r"\.parquet is damaged"):
        read_table(file)
    assert "panicked" not in capfd.readouterr().err
