"""What is wrong with a table, and where. Runs only after the fast reader has failed, so it may be slow and exact."""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from legcf.data.columns import Columns
from legcf.data.compressed import lines
from legcf.data.formats import Format, find_format
from legcf.data.options import DataOptions
from legcf.errors import UserError


@contextmanager
def reading(paths: Sequence[Path], options: DataOptions, columns: Columns | None) -> Iterator[None]:
    """Turn whatever the reader raises into a sentence that names the file and, if it can be found, the line."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeError) as error:
        raise explained(paths, options, columns, _first_sentence(error)) from error


def explained(paths: Sequence[Path], options: DataOptions, columns: Columns | None, otherwise: str) -> UserError:
    for path in paths:
        problem = _problem(path, options, columns)
        if problem is not None:
            return UserError(problem)
    return UserError(f"{', '.join(map(str, paths)) or 'The frame'} cannot be read: {otherwise}.")


def _first_sentence(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _problem(path: Path, options: DataOptions, columns: Columns | None) -> str | None:
    found = find_format(path, options)
    if not found.is_text:
        return None
    problem = _bad_bytes(path)
    if problem is None:
        search = _bad_json if found.delimiter is None else _bad_fields
        problem = search(path, found, columns)
    return problem


def _bad_bytes(path: Path) -> str | None:
    for number, line in enumerate(lines(path), 1):
        if b"\0" in line:
            return f"{path}, line {number} holds a NUL byte; the file is damaged or not text."
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return f"{path}, line {number} holds a byte that is not UTF-8 ({line[error.start]:#04x}): save it as UTF-8."
    return None


def _bad_json(path: Path, found: Format, columns: Columns | None) -> str | None:
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            return f"{path}, line {number} is not JSON."
        if not isinstance(row, dict):
            return f"{path}, line {number} is not a JSON object with a key for each column."
        problem = columns and _bad_values(
            {key: None if value is None else str(value) for key, value in row.items()}, columns
        )
        if problem:
            return f"{path}, line {number} {problem}."
    return None


def _bad_fields(path: Path, found: Format, columns: Columns | None) -> str | None:
    names: list[str] | None = None
    number = 0
    rows = _rows(path, found)
    while True:
        try:
            number, fields = next(rows)
        except StopIteration:
            return None
        except csv.Error:
            return (
                f"{path}, line {number + 1} or after has a quotation mark that is not closed or not alone in its field."
            )
        if names is None:
            names = fields
            if found.header:
                continue
        if len(fields) != len(names):
            return f"{path}, line {number} has {len(fields)} fields where the first line has {len(names)}."
        problem = columns and _bad_values(_named(fields, names, found, columns), columns)
        if problem:
            return f"{path}, line {number} {problem}."


def _rows(path: Path, found: Format) -> Iterator[tuple[int, list[str]]]:
    """Fields and number of each line that is not blank; a quoted field may span lines."""
    delimiter = found.delimiter or ","
    text = (line.decode("utf-8", "replace") for line in lines(path))
    if not found.quotes or len(delimiter) > 1:
        for number, line in enumerate(text, 1):
            if line.strip("\r"):
                yield number, line.rstrip("\r").split(delimiter)
        return
    csv.field_size_limit(1 << 30)
    reader = csv.reader((f"{line}\n" for line in text), delimiter=delimiter, strict=True)
    number = 1
    for fields in reader:
        if fields:
            yield number, fields
        number = reader.line_num + 1


def _named(fields: list[str], names: list[str], found: Format, columns: Columns) -> dict[str, str | None]:
    if found.header:
        plain = [name.rsplit(":", 1)[0] if found.name == "RecBole" else name for name in names]
    else:
        plain = [name for name in (columns.user, columns.item, columns.rating, columns.time) if name is not None]
    return {name: field or None for name, field in zip(plain, fields, strict=False)}


def _bad_values(row: dict[str, str | None], columns: Columns) -> str | None:
    for kind, column in (("user", columns.user), ("item", columns.item)):
        if row.get(column) is None:
            return f"has no {kind} id (column {column!r})"
        if str(row[column]).lower() == "nan":
            return f"has NaN for a {kind} id (column {column!r})"
    for kind, number in (("rating", columns.rating), ("time", columns.time)):
        if number is not None and not _is_number(row.get(number)) and not (kind == "time" and row.get(number)):
            return f"has {row.get(number)!r} where a {kind} should be (column {number!r})"
    return None


def _is_number(text: str | None) -> bool:
    try:
        value = float(text or "")
    except ValueError:
        return False
    return value == value
