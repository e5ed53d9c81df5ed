# SPDX-License-Identifier: Apache-2.0
"""Read the bytes of a text file, plain or compressed, in chunks that end with a line."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError

COMPRESSIONS = (".gz", ".zst")
CHUNK_BYTES = 64 << 20
# No user has so many items; a packed file of zeros that unpacks to more than memory holds has.
MAX_LINE_BYTES = 256 << 20
_MAX_FIRST_LINE_BYTES = 1 << 20
# Tables of text shrink 3 to 30 times, rows of one user 100 times; a bomb shrinks a thousandfold.
_MAX_RATIO = 200
_FREE_BYTES = 32 << 20  # that any file may unpack to
_ZST_BLOCK_BYTES = 128 << 10  # that a block unpacks to, at most (RFC 8878)
_BOM = b"\xef\xbb\xbf"


def plain_suffix(path: Path) -> str:
    """Return the suffix that names the format: `.csv` of ratings.csv.gz."""
    suffixes = path.suffixes
    if len(suffixes) > 1 and suffixes[-1].lower() in COMPRESSIONS:
        return suffixes[-2].lower()
    return path.suffix.lower()


def first_bytes(path: Path) -> bytes:
    """Return the start of a table's text, unpacked; refuse it if no line ends there, as in a bomb or in no text."""
    start = b""
    with _damage_in_a_sentence(path):
        for piece in _pieces(path, _MAX_FIRST_LINE_BYTES):
            start += piece
            if b"\n" in start or len(start) >= _MAX_FIRST_LINE_BYTES:
                break
    if len(start) >= _MAX_FIRST_LINE_BYTES and b"\n" not in start:
        raise UserError(f"{path}, line 1 is longer than {_MAX_FIRST_LINE_BYTES >> 20} MiB: it is not a table of text.")
    return start


def check_unpacked_size(path: Path) -> None:
    """Refuse a compressed file that would unpack to far more than a table of its size, before anyone unpacks it."""
    if path.suffix.lower() in COMPRESSIONS:
        with _damage_in_a_sentence(path):
            for _ in _pieces(path, 1 << 20) if path.suffix.lower() == ".gz" else ():
                pass
            if path.suffix.lower() == ".zst":
                _check_zst_size(path)


def line_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content without a leading byte order mark; each chunk ends with a whole line."""
    with _damage_in_a_sentence(path):
        yield from _whole_lines(_pieces(path, CHUNK_BYTES), path)


@contextmanager
def _damage_in_a_sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise UserError(f"{path} is damaged or cut off: its compressed data cannot be read to the end.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def lines(path: Path) -> Iterator[bytes]:
    for chunk in line_chunks(path):
        yield from chunk.split(b"\n")[: -1 if chunk.endswith(b"\n") else None]


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    """Yield the unpacked content in pieces of about `size` bytes; refuse what unpacks to too much."""
    if path.suffix.lower() == ".zst":
        _check_zst_size(path)
        # Python 3.11 has no zstd of its own, but polars does.
        for batch in pl.scan_lines(path).collect_batches():
            yield ("\n".join(batch.to_series().to_list()) + "\n").encode()
        return
    is_packed = path.suffix.lower() == ".gz"
    largest, unpacked = _largest_content(path), 0
    with gzip.open(path) if is_packed else open(path, "rb") as file:
        while piece := file.read(size):
            unpacked += len(piece)
            if is_packed and unpacked > largest:
                raise _bomb(path)
            yield piece


def _largest_content(path: Path) -> int:
    return _FREE_BYTES + _MAX_RATIO * path.stat().st_size


def _bomb(path: Path) -> UserError:
    return UserError(
        f"{path} unpacks to more than {_MAX_RATIO} times its size, which no table does: unpack it if it is one."
    )


def _check_zst_size(path: Path) -> None:
    """Sum what the blocks can unpack to at most, which their headers tell without any unpacking (RFC 8878, 3.1.1)."""
    size, largest, unpacked = path.stat().st_size, _largest_content(path), 0
    with open(path, "rb") as file:
        while magic := file.read(4):
            if magic[1:] == b"\x2a\x4d\x18" and 0x50 <= magic[0] <= 0x5F:  # a frame to be skipped
                file.seek(int.from_bytes(file.read(4), "little"), os.SEEK_CUR)
                continue
            if magic != b"\x28\xb5\x2f\xfd":
                raise EOFError
            flags = (file.read(1) or b"\0")[0]
            is_single = bool(flags & 0x20)
            content_bytes = (int(is_single), 2, 4, 8)[flags >> 6]
            file.seek((not is_single) + (0, 1, 2, 4)[flags & 3] + content_bytes, os.SEEK_CUR)
            is_last = False
            while not is_last:
                header = file.read(3)
                if len(header) < 3:
                    raise EOFError
                block = int.from_bytes(header, "little")
                is_last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
                unpacked += max(length, _ZST_BLOCK_BYTES) if kind == 2 else length  # compressed; else plain or one byte
                if unpacked > largest:
                    raise _bomb(path)
                file.seek(1 if kind == 1 else length, os.SEEK_CUR)
            file.seek(4 if flags & 4 else 0, os.SEEK_CUR)
        if file.tell() > size:
            raise EOFError


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
