# SPDX-License-Identifier: Apache-2.0
"""Read the bytes of a text file, plain or compressed, in chunks that end with a line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError

COMPRESSIONS = (".gz", ".zst")
CHUNK_BYTES = 64 << 20
# No user has so many items; a packed file of zeros that unpacks to more than memory holds has.
MAX_LINE_BYTES = 256 << 20
_MAX_FIRST_LINE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


def plain_suffix(path: Path) -> str:
    """Return the suffix that names the format: `.csv` of ratings.csv.gz."""
    suffixes = path.suffixes
    if len(suffixes) > 1 and suffixes[-1].lower() in COMPRESSIONS:
        return suffixes[-2].lower()
    return path.suffix.lower()


def first_bytes(path: Path) -> bytes:
    """Return the start of a table's text, unpacked; refuse it if no line ends there, as in a bomb or in no text."""
    if path.suffix.lower() == ".zst":
        with open(path, "rb") as file:
            return file.read(2)
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            start = file.read(_MAX_FIRST_LINE_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path) from error
    if len(start) == _MAX_FIRST_LINE_BYTES and b"\n" not in start:
        raise UserError(f"{path}, line 1 is longer than {_MAX_FIRST_LINE_BYTES >> 20} MiB: it is not a table of text.")
    return start


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged or cut off: its compressed data cannot be read to the end.")


def line_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content without a leading byte order mark; each chunk ends with a whole line."""
    try:
        yield from _whole_lines(_zst_pieces(path) if path.suffix.lower() == ".zst" else _pieces(path), path)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def lines(path: Path) -> Iterator[bytes]:
    for chunk in line_chunks(path):
        yield from chunk.split(b"\n")[: -1 if chunk.endswith(b"\n") else None]


def _pieces(path: Path) -> Iterator[bytes]:
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _zst_pieces(path: Path) -> Iterator[bytes]:
    # Python 3.11 has no zstd of its own, but polars does.
    for batch in pl.scan_lines(path).collect_batches():
        yield ("\n".join(batch.to_series().to_list()) + "\n").encode()


def _whole_lines(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    rest, first = b"", True
    for piece in pieces:
        data = rest + piece if rest else piece
        if first and len(data) >= len(_BOM):
            data, first = data.removeprefix(_BOM), False
        end = data.rfind(b"\n") + 1
        if end == len(data):
            rest = b""
            yield data
            continue
        if end:
            yield data[:end]
        rest = data[end:]
        if len(rest) > MAX_LINE_BYTES:
            raise UserError(f"{path} has a line of more than {MAX_LINE_BYTES >> 20} MiB: it is damaged or not text.")
    if rest.removeprefix(_BOM):
        yield rest.removeprefix(_BOM)
