# SPDX-License-Identifier: Apache-2.0
"""Define the contract of a table format. A new one is a file beside this and a line in `FORMATS`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.options import DataOptions

PAIR_NAMES = ("user", "item", "rating", "timestamp")
ITEM_NAMES = ("item", "title")
_MAX_COLUMNS = 10_000  # of a table
RAGGED = "has another number of fields"
"""An extra column of formats whose lines are split here: whether a line has too many or too few fields."""

Source = Path | bytes


def check_width(columns: int, where: object) -> None:
    """Refuse a table of very many columns."""
    if columns > _MAX_COLUMNS:
        raise UserError(f"{where} has {columns:,} columns, and at most {_MAX_COLUMNS:,} are read: keep those you need.")


NumberedRow = tuple[int, dict[str, str | None]]


@dataclass(frozen=True)
class Format(ABC):
    """Read one kind of file. Only `scan` must be written; the rest makes messages better."""

    name: str
    is_text: bool = True
    """Ids have no type: those of a column that are all spelled as plain integers are integers, the others are text.
    The content of such a file is UTF-8 and may be compressed."""
    is_typed: bool = False
    """Other values than ids have types, as `scan_items` gives them; else all of them are text."""
    header: bool = False
    """The first line names the columns."""

    @abstractmethod
    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        """Scan the rows lazily, with the columns of the file; a text format yields text in every column.

        `names` are for columns without a name of their own, in this order. A text format also takes bytes instead of a
        path.
        """

    def scan_items(self, source: Source) -> pl.LazyFrame:
        """Scan a table of items with the types that the file states."""
        frame = self.scan(source, ITEM_NAMES)
        return frame.drop(RAGGED, strict=False)

    def suited(self, path: Path, options: DataOptions) -> "Format":
        """Return this format as the options and the file require it."""
        return self

    def num_columns(self, first_line: bytes) -> int:
        """Return the number of columns, as far as a first line shows it."""
        return 1

    def lacks_header(self, columns: Sequence[str], required: Sequence[str | None]) -> bool:
        """Return whether the first line seems to be a row and not names; `required` are the columns found for ids."""
        return False

    def remedy(self, columns: Sequence[str], role: str) -> str:
        """Say what to do when no column looks like the ids of a role."""
        return f"Name the right one with `--{role}-col`."

    def rows(self, path: Path, names: Sequence[str]) -> Iterator[NumberedRow]:
        """Yield line number and fields by column, to find the line of a problem: read only when there is one.

        A line that cannot be read is a UserError that names it.
        """
        return iter(())
