# SPDX-License-Identifier: Apache-2.0
"""Read lines of fields with a delimiter between them: CSV, TSV, the `::` files of MovieLens, ml-100k, RecBole.

Every column is read as text: only text keeps "007" and integers of any size as they are.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.reading.compressed import lines
from legcf.data.reading.formats.base import RAGGED, Format, NumberedRow, Source

# Numbers and dates: nobody calls a column so.
_VALUE = re.compile(r"\s*([+-]?\d+([.,]\d+)?([eE][+-]?\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?)\s*")


@dataclass(frozen=True)
class Delimited(Format):
    """Read delimited text; `delimiter` may have several characters, then quotation marks mean nothing."""

    header: bool = True
    delimiter: str = ","
    quotes: bool = False
    numbered: bool = False
    """Columns without a name are called 1, 2, 3, …, not what this format usually has in them."""

    def suited(self, path: Path, options: DataOptions) -> Format:
        header = self.header if options.header is None else options.header
        delimiter = options.delimiter or self.delimiter
        return replace(self, delimiter=delimiter, header=header, numbered=self.header and not header)

    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        return self._split_lines(source, names) if len(self.delimiter) > 1 else self._parsed(source, names)

    def column_names(self, fields: Sequence[str]) -> list[str]:
        """Return the names of the columns, from the fields of a header."""
        return list(fields)

    def num_columns(self, first_line: bytes) -> int:
        return first_line.count(self.delimiter.encode()) + 1

    def lacks_header(self, columns: Sequence[str], required: Sequence[str | None]) -> bool:
        if not self.header or not any(_VALUE.fullmatch(name) for name in columns):
            return False
        return any(name is None or _VALUE.fullmatch(name) is not None for name in required)

    def remedy(self, columns: Sequence[str], role: str) -> str:
        others = [mark for mark in ",;\t|" if len(columns) == 1 and mark in columns[0]]
        if others:
            return f"Is `{others[0]}` its delimiter? Then say `--delimiter '{others[0]}'`."
        if not self.header:
            return super().remedy(columns, role)
        return (
            f"Name the right one with `--{role}-col`, or say `--no-header` if the first line is a row like the others."
        )

    def rows(self, path: Path, names: Sequence[str]) -> Iterator[NumberedRow]:
        columns: list[str] | None = None
        number = 0
        try:
            for number, fields in self._fields(path):
                if columns is None:
                    columns, count = self._names(fields, names), len(fields)
                    if self.header:
                        continue
                if len(fields) != count:
                    raise UserError(f"{path}, line {number} has {len(fields)} fields where the first line has {count}.")
                yield number, {name: field or None for name, field in zip(columns, fields, strict=False)}
        except csv.Error as error:
            raise UserError(
                f"{path}, line {number + 1} or after has a quotation mark that is not closed or not alone in its field."
            ) from error

    def _names(self, first: Sequence[str], names: Sequence[str]) -> list[str]:
        if self.header:
            return self.column_names(first)
        return [str(number) for number in range(1, len(first) + 1)] if self.numbered else list(names)

    def _parsed(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        frame = pl.scan_csv(
            source,
            separator=self.delimiter,
            has_header=self.header,
            quote_char='"' if self.quotes else None,
            infer_schema=False,
            glob=False,
        )
        # As one expression over all columns, this takes time and memory by the square of their number.
        frame = frame.map_batches(
            lambda rows: rows.filter(~pl.all_horizontal(pl.all().is_null())),  # no blank lines
            predicate_pushdown=False,
            projection_pushdown=False,
            slice_pushdown=False,
            streamable=True,
        )
        before = frame.collect_schema().names()
        after = self._names(before, names)
        return frame if before == after else frame.rename(dict(zip(before, after, strict=False)))

    def _split_lines(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        line = pl.col("line").str.strip_prefix("\ufeff").str.strip_suffix("\r")
        fields = pl.scan_lines(source).select(line).filter(line != "").select(pl.col("line").str.split(self.delimiter))
        first = fields.head(1).collect()
        first_fields = first.item().to_list() if len(first) else []
        column_names = self._names(first_fields, names)[: len(first_fields)]
        columns = [
            pl.col("line").list.get(index, null_on_oob=True).alias(name) for index, name in enumerate(column_names)
        ]
        ragged = pl.col("line").list.len() != len(first_fields)
        return fields.slice(int(self.header)).select(*columns, ragged.alias(RAGGED))

    def _fields(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """Yield number and fields of each line that is not blank; a quoted field may span lines."""
        text = (line.decode("utf-8", "replace") for line in lines(path))
        if not self.quotes or len(self.delimiter) > 1:
            for number, line in enumerate(text, 1):
                if line.strip("\r"):
                    yield number, line.rstrip("\r").split(self.delimiter)
            return
        csv.field_size_limit(1 << 30)
        reader = csv.reader((f"{line}\n" for line in text), delimiter=self.delimiter, strict=True)
        number = 1
        for fields in reader:
            if fields:
                yield number, fields
            number = reader.line_num + 1


@dataclass(frozen=True)
class RecBole(Delimited):
    """Read the atomic files of RecBole: fields between tabs, with a header of `name:type`."""

    delimiter: str = "\t"

    def suited(self, path: Path, options: DataOptions) -> Format:
        """Tell apart the `u.item` of ml-100k, which has the same suffix."""
        is_typed = b":token" in next(lines(path), b"")
        return super().suited(path, options) if is_typed else ML_100K_ITEMS.suited(path, options)

    def column_names(self, fields: Sequence[str]) -> list[str]:
        return [name.rsplit(":", 1)[0] for name in fields]


CSV = Delimited("CSV", quotes=True)
TSV = Delimited("TSV", delimiter="\t", quotes=True)
MOVIELENS = Delimited("MovieLens ::", header=False, delimiter="::")
ML_100K = Delimited("ml-100k", header=False, delimiter="\t")
ML_100K_ITEMS = Delimited("ml-100k items", header=False, delimiter="|")
RECBOLE = RecBole("RecBole")
