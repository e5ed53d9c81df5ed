"""Table formats, one pair a row, each scanned lazily by polars; a line in `FORMATS` for every suffix.

Text formats are read as text in every column: only text keeps "007" and integers of any size as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from legcf.data.compressed import first_bytes, line_chunks, lines, plain_suffix
from legcf.data.options import DataOptions
from legcf.errors import UserError

PAIR_NAMES = ("user", "item", "rating", "timestamp")
TITLE_NAMES = ("item", "title")
FIELD_COUNT = "number of fields"
"""Extra column of formats whose lines are split here: how many fields the line had."""

Source = Path | bytes


@dataclass(frozen=True)
class Format:
    """How a kind of file is scanned. `delimiter` is None where rows are not lines of delimited fields."""

    name: str
    scan: Callable[[Source, "Format", Sequence[str]], pl.LazyFrame]
    delimiter: str | None = None
    header: bool = True
    quotes: bool = False
    is_text: bool = True


def find_format(path: Path, options: DataOptions) -> Format:
    suffix = plain_suffix(path)
    if suffix not in FORMATS:
        raise UserError(f"{path} has a suffix that no reader knows: use one of {', '.join(FORMATS)}.")
    found = FORMATS[suffix]
    if found.name == "RecBole" and b":token" not in next(lines(path), b""):
        found = _BARRED
    if options.delimiter is None or found.delimiter is None:
        return found
    if len(options.delimiter) == 1:
        return replace(found, scan=_scan_delimited, delimiter=options.delimiter)
    return replace(found, scan=_scan_split_lines, delimiter=options.delimiter, header=False)


def scan_pairs(path: Path, options: DataOptions) -> pl.LazyFrame:
    found = _checked(path, options)
    return found.scan(path, found, PAIR_NAMES)


def scan_titles(path: Path, options: DataOptions) -> pl.LazyFrame:
    """Like `scan_pairs`, but text that is not UTF-8 is taken for Latin-1, as in the older MovieLens sets."""
    found = _checked(path, options)
    if not found.is_text:
        return found.scan(path, found, TITLE_NAMES)
    content = b"".join(line_chunks(path))
    try:
        content.decode()
    except UnicodeDecodeError:
        content = content.decode("latin-1").encode()
    return found.scan(content, found, TITLE_NAMES)


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


def _scan_delimited(source: Source, found: Format, names: Sequence[str]) -> pl.LazyFrame:
    assert found.delimiter is not None
    frame = pl.scan_csv(
        source,
        separator=found.delimiter,
        has_header=found.header,
        quote_char='"' if found.quotes else None,
        infer_schema=False,
        glob=False,
    )
    # A line with nothing in it is no row.
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    if found.header:
        return frame
    return frame.rename(dict(zip(frame.collect_schema().names(), names, strict=False)))


def _scan_typed(source: Source, found: Format, names: Sequence[str]) -> pl.LazyFrame:
    """RecBole: apart by tabs, with a header of `name:type`."""
    frame = _scan_delimited(source, found, names)
    return frame.rename({name: name.rsplit(":", 1)[0] for name in frame.collect_schema().names()})


def _scan_split_lines(source: Source, found: Format, names: Sequence[str]) -> pl.LazyFrame:
    """Fields apart by more than one character, as in the `::` files of MovieLens."""
    assert found.delimiter is not None
    line = pl.col("line").str.strip_prefix("\ufeff").str.strip_suffix("\r")
    fields = pl.scan_lines(source).select(line).filter(line != "").select(pl.col("line").str.split(found.delimiter))
    first = fields.head(1).collect()
    count = len(first.item()) if len(first) else 0
    columns = [pl.col("line").list.get(place, null_on_oob=True).alias(name) for place, name in enumerate(names[:count])]
    return fields.select(*columns, pl.col("line").list.len().alias(FIELD_COUNT))


def _scan_parquet(source: Source, found: Format, names: Sequence[str]) -> pl.LazyFrame:
    assert isinstance(source, Path)
    return pl.scan_parquet(source, glob=False)


def _scan_json_lines(source: Source, found: Format, names: Sequence[str]) -> pl.LazyFrame:
    keys = pl.scan_ndjson(source, infer_schema_length=1000).collect_schema().names()
    return pl.scan_ndjson(source, schema={key: pl.String() for key in keys})


_BARRED = Format("ml-100k items", _scan_delimited, "|", header=False)
_JSON_LINES = Format("JSON lines", _scan_json_lines)
FORMATS: dict[str, Format] = {
    ".csv": Format("CSV", _scan_delimited, ",", quotes=True),
    ".tsv": Format("TSV", _scan_delimited, "\t", quotes=True),
    ".parquet": Format("Parquet", _scan_parquet, is_text=False),
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".json": _JSON_LINES,
    ".inter": Format("RecBole", _scan_typed, "\t"),
    ".item": Format("RecBole", _scan_typed, "\t"),
    ".dat": Format("MovieLens ::", _scan_split_lines, "::", header=False),
    ".data": Format("ml-100k", _scan_delimited, "\t", header=False),
}
