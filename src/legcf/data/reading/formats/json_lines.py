# SPDX-License-Identifier: Apache-2.0
"""Read JSON, one object a line, with a key for each column."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.reading.compressed import lines
from legcf.data.reading.formats.base import Format, NumberedRow, Source, check_width


@dataclass(frozen=True)
class JsonLines(Format):
    is_typed: bool = True

    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        return pl.scan_ndjson(source, schema={key: pl.String() for key in _schema(source, 1000)})

    def scan_items(self, source: Source) -> pl.LazyFrame:
        return pl.scan_ndjson(source, schema={key: _flat(kind) for key, kind in _schema(source, None).items()})

    def rows(self, path: Path, names: Sequence[str]) -> Iterator[NumberedRow]:
        for number, line in enumerate(lines(path), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:  # also: an integer of thousands of digits
                raise UserError(f"{path}, line {number} is not JSON.") from error
            if not isinstance(row, dict):
                raise UserError(f"{path}, line {number} is not a JSON object with a key for each column.")
            yield number, {key: None if value is None else str(value) for key, value in row.items()}


def _schema(source: Source, num_rows: int | None) -> pl.Schema:
    """Return the types of the columns, as far as the first rows show them; all rows by default."""
    schema = pl.scan_ndjson(source, infer_schema_length=num_rows).collect_schema()
    check_width(len(schema), source if isinstance(source, Path) else "A table of JSON lines")
    return schema


def _flat(kind: pl.DataType) -> pl.DataType:
    """Return text instead of values inside values, but for simple lists: time grows by the cube of their depth."""
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return pl.String() if inner.is_nested() else kind


JSON_LINES = JsonLines("JSON lines")
