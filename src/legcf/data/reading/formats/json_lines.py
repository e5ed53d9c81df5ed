# SPDX-License-Identifier: Apache-2.0
"""Read JSON, one object a line, with a key for each column."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.reading.compressed import lines
from legcf.data.reading.formats.base import Format, NumberedRow, Source


@dataclass(frozen=True)
class JsonLines(Format):
    is_typed: bool = True

    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        keys = pl.scan_ndjson(source, infer_schema_length=1000).collect_schema().names()
        return pl.scan_ndjson(source, schema={key: pl.String() for key in keys})

    def scan_items(self, source: Source) -> pl.LazyFrame:
        return pl.scan_ndjson(source, infer_schema_length=None)

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


JSON_LINES = JsonLines("JSON lines")
