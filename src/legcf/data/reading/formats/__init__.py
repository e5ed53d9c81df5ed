# SPDX-License-Identifier: Apache-2.0
"""Table formats, found by the suffix of a file: a new one is a file in this folder and a line in `FORMATS`."""

from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.core.plugins import Registry
from legcf.data.options import DataOptions
from legcf.data.reading.compressed import first_bytes, line_chunks, plain_suffix
from legcf.data.reading.formats.base import PAIR_NAMES, RAGGED, TITLE_NAMES, Format
from legcf.data.reading.formats.delimited import CSV, ML_100K, MOVIELENS, TSV
from legcf.data.reading.formats.json_lines import JSON_LINES
from legcf.data.reading.formats.parquet import PARQUET
from legcf.data.reading.formats.recbole import RECBOLE

__all__ = ["FORMATS", "PAIR_NAMES", "RAGGED", "Format", "find_format", "scan_pairs", "scan_titles"]

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


def scan_titles(path: Path, options: DataOptions) -> pl.LazyFrame:
    """Like `scan_pairs`, but text that is not UTF-8 is taken for Latin-1, as in the older MovieLens sets."""
    found = _checked(path, options)
    if not found.is_text:
        return found.scan(path, TITLE_NAMES)
    content = b"".join(line_chunks(path))
    try:
        content.decode()
    except UnicodeDecodeError:
        content = content.decode("latin-1").encode()
    return found.scan(content, TITLE_NAMES)


def _checked(path: Path, options: DataOptions) -> Format:
    """The format of a file, once it is clear that there is something to read in it."""
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    usual = FORMATS.get(plain_suffix(path))
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty.")
    if usual is not None and usual.is_text:
        start = first_bytes(path)
        if not start:
            raise UserError(f"{path} is empty.")
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise UserError(f"{path} is UTF-16 text: save it as UTF-8.")
    return find_format(path, options)
