# SPDX-License-Identifier: Apache-2.0
"""Read Parquet: columns have types, and ids keep theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.data.reading.formats.base import Format, Source


@dataclass(frozen=True)
class Parquet(Format):
    is_text: bool = False
    is_typed: bool = True

    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        assert isinstance(source, Path)
        return pl.scan_parquet(source, glob=False)


PARQUET = Parquet("Parquet")
