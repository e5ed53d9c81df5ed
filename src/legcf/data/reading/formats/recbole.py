# SPDX-License-Identifier: Apache-2.0
"""Read RecBole's atomic files: fields between tabs, with a header of `name:type`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from legcf.data.options import DataOptions
from legcf.data.reading.compressed import lines
from legcf.data.reading.formats.base import Format
from legcf.data.reading.formats.delimited import ML_100K_ITEMS, Delimited


@dataclass(frozen=True)
class RecBole(Delimited):
    delimiter: str = "\t"

    def suited(self, path: Path, options: DataOptions) -> Format:
        """Tell apart the `u.item` of ml-100k, which has the same suffix."""
        is_typed = b":token" in next(lines(path), b"")
        return super().suited(path, options) if is_typed else ML_100K_ITEMS.suited(path, options)

    def column_names(self, fields: Sequence[str]) -> list[str]:
        return [name.rsplit(":", 1)[0] for name in fields]


RECBOLE = RecBole("RecBole")
