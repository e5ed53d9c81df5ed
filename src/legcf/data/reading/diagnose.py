# SPDX-License-Identifier: Apache-2.0
"""Find out what is wrong with a table, and where. Runs only after the fast reader failed: it may be slow and exact."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.reading.columns import Columns
from legcf.data.reading.compressed import lines
from legcf.data.reading.formats import PAIR_NAMES, Format, find_format


@dataclass(frozen=True)
class Files:
    """Hold the files that rows came from, each with its columns if they are known; no file for a frame in memory."""

    options: DataOptions = DEFAULTS
    columns: Mapping[Path, Columns | None] = field(default_factory=dict)

    @cached_property
    def formats(self) -> dict[Path, Format]:
        return {path: find_format(path, self.options) for path in self.columns}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever the reader raises into a sentence that names the file and, if it can be found, the line."""
        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeError) as error:
            names = ", ".join(map(str, self.columns)) or "The frame"
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise self.error(f"{names} cannot be read: {reason}") from error

    def error(self, otherwise: str, advice: str = "") -> UserError:
        """Return what is wrong with these files, searched line by line, or `otherwise` where nothing is found."""
        problems = (_problem(path, self.formats[path], columns) for path, columns in self.columns.items())
        sentence = next((problem for problem in problems if problem is not None), f"{otherwise}.")
        return UserError(f"{sentence.removesuffix('.')}; {advice}." if advice else sentence)

    def line_of_time(self, value: str) -> str | None:
        """Return file and line of the first row with this time, where rows have lines."""
        for path, columns in self.columns.items():
            for number, row in self.formats[path].rows(path, PAIR_NAMES):
                if columns is not None and columns.time is not None and row.get(columns.time) == value:
                    return f"{path}, line {number}"
        return None

    def headers(self) -> set[tuple[str, str]]:
        """Return the names of the user and item columns in those files whose first line states them."""
        named = ((path, columns) for path, columns in self.columns.items() if columns is not None)
        return {(columns.user, columns.item) for path, columns in named if self.formats[path].header}

    def are_text(self) -> bool:
        return any(form.is_text for form in self.formats.values())


def _problem(path: Path, form: Format, columns: Columns | None) -> str | None:
    if not form.is_text:
        return None
    problem = _bad_bytes(path)
    if problem is not None:
        return problem
    try:
        for number, row in form.rows(path, PAIR_NAMES):
            problem = None if columns is None else _bad_values(row, columns, form)
            if problem is not None:
                return f"{path}, line {number} {problem}."
    except UserError as error:
        return str(error)
    return None


def _bad_bytes(path: Path) -> str | None:
    for number, line in enumerate(lines(path), 1):
        if b"\0" in line:
            return f"{path}, line {number} holds a NUL byte; the file is damaged or not text."
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return f"{path}, line {number} holds a byte that is not UTF-8 ({line[error.start]:#04x}): save it as UTF-8."
    return None


def _bad_values(row: dict[str, str | None], columns: Columns, form: Format) -> str | None:
    for kind, column in (("user", columns.user), ("item", columns.item)):
        if row.get(column) is None:
            return f"has no {kind} id (column {column!r})"
        if str(row[column]).lower() == "nan":
            return f"has NaN for a {kind} id (column {column!r})"
    if form.header and (row[columns.user], row[columns.item]) == (columns.user, columns.item):
        return "repeats the header: take it out"
    if columns.rating is not None and not _is_number(row.get(columns.rating)):
        return f"has {row.get(columns.rating)!r} where a rating should be (column {columns.rating!r})"
    if columns.weight is not None and not _is_number(row.get(columns.weight), above=0):
        return f"has {row.get(columns.weight)!r} where a positive weight should be (column {columns.weight!r})"
    if columns.time is not None and row.get(columns.time) is None:
        return f"has no time (column {columns.time!r})"
    if columns.event is not None and row.get(columns.event) is None:
        return f"has no kind of event (column {columns.event!r})"
    return None


def _is_number(text: str | None, above: float | None = None) -> bool:
    """Return whether a text is a number, and if it must be above another, a finite one."""
    try:
        value = float(text or "")
    except ValueError:
        return False
    return value == value if above is None else above < value < inf
