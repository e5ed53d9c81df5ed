# SPDX-License-Identifier: Apache-2.0
"""The contract of a table format, one pair a row. A new one is a file beside this and a line in `FORMATS`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.data.options import DataOptions

PAIR_NAMES = ("user", "item", "rating", "timestamp")
TITLE_NAMES = ("item", "title")
RAGGED = "has another number of fields"
"""An extra column of formats whose lines are split here: whether a line has too many or too few fields."""

Source = Path | bytes
NumberedRow = tuple[int, dict[str, str | None]]


@dataclass(frozen=True)
class Format(ABC):
    """How a kind of file is read. Only `scan` must be written; the rest makes messages better."""

    name: str
    is_text: bool = True
    """Ids have no type: those of a column that are all spelled as plain integers are integers, the others are text.
    The content of such a file is UTF-8 and may be compressed."""
    header: bool = False
    """The first line names the columns."""

    @abstractmethod
    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        """The rows, lazily, with the columns of the file; a text format gives text in every column.

        `names` are what columns without a name of their own are called, in this order. A text format is also given
        bytes in place of a path.
        """

    def suited(self, path: Path, options: DataOptions) -> "Format":
        """This format as the options and the file want it."""
        return self

    def lacks_header(self, columns: Sequence[str], found: Sequence[str | None]) -> bool:
        """Whether the first line seems to be a row and not names; `found` are the columns that must be there."""
        return False

    def remedy(self, columns: Sequence[str], role: str) -> str:
        """What to do when no column looks like the ids of a role."""
        return f"Name the right one with `--{role}-col`."

    def rows(self, path: Path, names: Sequence[str]) -> Iterator[NumberedRow]:
        """Line number and fields by column, to find the line of a problem: read only when there is one.

        A line that cannot be read is a UserError that names it.
        """
        return iter(())
