# SPDX-License-Identifier: Apache-2.0
"""Find the format of a table by the suffix of its file: a new one is a file in this folder and a line in `FORMATS`."""

from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.core.plugins import Registry
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.reading.compressed import check_unpacked_size, first_bytes, line_chunks, plain_suffix
from legcf.data.reading.formats.base import ITEM_NAMES, PAIR_NAMES, RAGGED, Format, Source, check_width
from legcf.data.reading.formats.delimited import CSV, ML_100K, MOVIELENS, RECBOLE, TSV
from legcf.data.reading.formats.json_lines import JSON_LINES
from legcf.data.reading.formats.parquet import PARQUET

__all__ = ["FORMATS", "ITEM_NAMES", "PAIR_NAMES", "RAGGED", "Format", "find_format", "open_item_file", "scan_pairs"]

FORMATS: Registry[Format] = Registry(
    "format",
    "legcf.formats",
    lambda part: isinstance(part, Format),
    {
        ".csv": CSV,
        ".tsv": TSV,
        ".parquet": PARQUET,
        ".jsonl": JSON_LINES,
        ".ndjson": JSON_LINES,
        ".json": JSON_LINES,
        ".inter": RECBOLE,
        ".item": RECBOLE,
        ".dat": MOVIELENS,
        ".data": ML_100K,
    },
)


def find_format(path: Path, options: DataOptions) -> Format:
    suffix = plain_suffix(path)
    if suffix not in FORMATS:
        raise UserError(f"{path} has a suffix that no reader knows: use one of {', '.join(FORMATS)}.")
    return FORMATS[suffix].suited(path, options)


def scan_pairs(path: Path, options: DataOptions) -> pl.LazyFrame:
    return _checked(path, options).scan(path, PAIR_NAMES)


def open_item_file(path: Path) -> tuple[Format, Source]:
    """Return the format and content of a table of items; text that is not UTF-8 is taken for Latin-1, as in the older
    MovieLens sets."""
    form = _checked(path, DEFAULTS)
    if not form.is_text:
        return form, path
    content = b"".join(line_chunks(path))
    try:
        content.decode()
    except UnicodeDecodeError:
        content = content.decode("latin-1").encode()
    return form, content


def _checked(path: Path, options: DataOptions) -> Format:
    """Return the format of a file, once it is clear that there is something to read in it."""
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    usual = FORMATS.get(plain_suffix(path))
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    if usual is None or not usual.is_text:
        return find_format(path, options)
    start = first_bytes(path)
    if not start:
        raise UserError(f"{path} is empty.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path} is UTF-16 text: save it as UTF-8.")
    if b"\r" in start and b"\n" not in start:
        raise UserError(f"{path} has lines that end with CR alone: save it with the line ends of Unix or Windows.")
    form = find_format(path, options)
    check_width(form.num_columns(start.partition(b"\n")[0]), path)
    check_unpacked_size(path)
    return form
