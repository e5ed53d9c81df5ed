# SPDX-License-Identifier: Apache-2.0
"""Read embedding tables from files: .npy, .npz (also of `implicit` models), .parquet, .safetensors, text. Never pickle.

A file holds two matrices, users and items, or one. The suffix decides the format, names decide the sides.
"""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from legcf.core.arrays import NPY_ERRORS, Matrix
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, as_typed, integer_id

if TYPE_CHECKING:
    import polars as pl

_ID_COLUMNS = ("id", "user", "user_id", "userid", "item", "item_id", "itemid", "entity")


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Hold vectors of both sides, or of one (`users` is None), and ids where the file has them; `origin` names it."""

    items: Matrix
    users: Matrix | None = None
    item_ids: list[ExternalId] | None = None
    user_ids: list[ExternalId] | None = None
    origin: str = ""

    def with_ids(self, users: list[ExternalId] | None, items: list[ExternalId] | None) -> "VectorTable":
        """Return the table with these ids; None keeps those it has."""
        if users is not None and self.users is None:
            raise UserError(f"There are user ids but no user vectors ({self.origin}): see --items and --num-users.")
        return replace(
            self, user_ids=self.user_ids if users is None else users, item_ids=self.item_ids if items is None else items
        )


def read_table(path: Path, items: Path | None = None, num_users: int | None = None) -> VectorTable:
    """Read one file, or users from `path` and items from a second; `num_users` cuts one matrix into users and items."""
    table = _read(path)
    if items is not None:
        second = _read(items)
        if table.users is not None or second.users is not None:
            raise UserError(f"With --items each file must hold one matrix, but {path} or {items} holds two.")
        origin = f"users: {table.origin}; items: {second.origin}"
        table = VectorTable(second.items, table.items, second.item_ids, table.item_ids, origin)
    if num_users is None:
        return table
    if table.users is not None:
        raise UserError(f"--num-users cuts a single matrix in two, but there are two already ({table.origin}).")
    if not 0 < num_users < len(table.items):
        raise UserError(f"--num-users {num_users:,} must lie between 1 and the {len(table.items) - 1:,} other rows.")
    ids = table.item_ids
    return replace(
        table,
        users=table.items[:num_users],
        items=table.items[num_users:],
        user_ids=None if ids is None else ids[:num_users],
        item_ids=None if ids is None else ids[num_users:],
    )


def read_ids(path: Path | None) -> list[ExternalId] | None:
    """Read one id per line; integers stay integers when all of them are."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a list of ids, one per line: {error}.") from error
    if "" in lines:
        raise UserError(f"{path}, line {lines.index('') + 1}: an id is missing.")
    return [*as_typed(lines, is_text=False)]


def _read(path: Path) -> VectorTable:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        suffixes = ", ".join(_READERS)
        raise UserError(f"{path} is not a table that legcf reads: its name must end in one of {suffixes}.")
    if not path.is_file():
        raise UserError(f"{path} is a folder, not a table." if path.is_dir() else f"{path} does not exist.")
    return reader(path)


def _read_npy(path: Path) -> VectorTable:
    with _reading(path, *NPY_ERRORS):
        # Mapped, not read: a table larger than memory is coded block by block.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} is not a plain .npy file: name an .npz file .npz.")
    return VectorTable(_matrix(array, path, "the array"), origin=f"{path}, {_shape(array)}")


def _read_npz(path: Path) -> VectorTable:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path} is not an .npz archive: it is damaged, cut short or of another type.")
    with _reading(path, *NPY_ERRORS), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    # What is no matrix belongs to something else: an `implicit` model stores its settings beside its factors.
    return _sides({name: array for name, array in arrays.items() if array.ndim == 2}, path, ordered=True)


def _read_safetensors(path: Path) -> VectorTable:
    from safetensors import SafetensorError, safe_open

    try:
        with _reading(path, SafetensorError, OSError, ValueError), safe_open(path, framework="numpy") as file:
            names = [name for name in file.keys() if len(file.get_slice(name).get_shape()) == 2]  # noqa: SIM118
            arrays = {name: file.get_tensor(name) for name in names}
    except (TypeError, AttributeError) as error:
        # numpy has no such type (bfloat16, float8)
        raise UserError(f"{path} holds numbers of a type that numpy lacks ({error}): save it as float32.") from error
    return _sides(arrays, path, ordered=False)


def _read_parquet(path: Path) -> VectorTable:
    """Read a vector from each row: one column of lists, or a column per dimension; at most one more column, of ids."""
    import polars as pl

    from legcf.data.reading.formats.parquet import check_parquet

    check_parquet(path)
    with _reading(path, pl.exceptions.PolarsError, OSError):
        frame = pl.read_parquet(path)
    return _from_frame(frame, path)


def _from_frame(frame: "pl.DataFrame", path: Path) -> VectorTable:
    import polars as pl

    ids = next((name for name in frame.columns if name.lower() in _ID_COLUMNS), None)
    values = frame.drop(ids) if ids is not None else frame
    nested = [name for name, kind in values.schema.items() if isinstance(kind, pl.List | pl.Array)]
    if nested and values.width > 1:
        raise UserError(f"{path} has the columns {', '.join(values.columns)}: keep one column of vectors and the ids.")
    if nested:
        column = values.get_column(nested[0])
        lengths = column.list.len() if isinstance(column.dtype, pl.List) else None
        if column.null_count() or (lengths is not None and lengths.n_unique() != 1):
            raise UserError(f"{path}: the vectors in column {nested[0]!r} differ in length; all need the same.")
        width = int(lengths[0]) if lengths is not None else values.schema[nested[0]].size  # type: ignore[attr-defined]
        matrix = column.explode().to_numpy().reshape(-1, width)
    else:
        odd = [name for name, kind in values.schema.items() if not kind.is_numeric()]
        if odd or not values.width:
            raise UserError(f"{path}: column {', '.join(odd) or 'list'} holds no numbers, so it is not a table.")
        matrix = values.to_numpy()
    identifiers = None if ids is None else frame.get_column(ids).to_list()
    return VectorTable(_matrix(matrix, path, "the table"), item_ids=identifiers, origin=f"{path}, {_shape(matrix)}")


def _read_csv(path: Path) -> VectorTable:
    """Read a vector from each line: numbers between commas (tabs in a .tsv), under a header or not."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    head = [[field.strip().strip('"') for field in line.split(separator)] for line in _first_lines(path)]
    names = [name.lower() for name in head[0]]
    has_header = len(head) > 1 and (names[0] in ("", *_ID_COLUMNS) or not any(map(_is_number, names[1:])))
    row, names = (head[1], names) if has_header else (head[0], [])
    named = next((position for position, name in enumerate(names) if name in ("", *_ID_COLUMNS)), 0)
    is_decimal = _is_number(row[0]) and not row[0].lstrip("+-").isdigit()  # so no id: 0.5 and 1e-3, not 7 or 007
    has_ids = bool(names and names[named] in ("", *_ID_COLUMNS)) or not is_decimal
    return _read_lines(path, separator, len(row), named if has_ids else None, skipped=int(has_header))


def _read_word2vec(path: Path) -> VectorTable:
    """Read an id and its numbers from each line, with spaces between; word2vec's first line counts rows and numbers."""
    head = _first_lines(path)
    counts = [integer_id(field) for field in head[0].split()]
    has_counts = len(counts) == 2 and None not in counts
    table = _read_lines(path, " ", len(head[-1].split(" ")), 0, skipped=int(has_counts))
    if has_counts and list(table.items.shape) != counts:
        raise UserError(
            f"{path} announces {counts[0]:,} × {counts[1]:,} numbers and has {_shape(table.items)}: it is cut short or"
            " damaged."
        )
    return table


def _read_lines(path: Path, separator: str, fields: int, ids: int | None, skipped: int) -> VectorTable:
    """Read lines of numbers but for the column `ids`, whose values stay as they are written."""
    import polars as pl

    kinds: dict[str, type[pl.DataType]] = {
        "id" if position == ids else f"value {position}": pl.String if position == ids else pl.Float32
        for position in range(fields)
    }
    with _reading(path, pl.exceptions.PolarsError, OSError):
        frame = pl.read_csv(
            path, separator=separator, has_header=False, skip_rows=skipped, schema=kinds,
            quote_char=None if separator == " " else '"',
        )  # fmt: skip
    if frame.height and frame.width > 1 and frame.get_columns()[-1].null_count() == frame.height:
        frame = frame.drop(frame.columns[-1])  # what some programs write ends in a space
    table = _from_frame(frame, path)
    return replace(table, item_ids=None if table.item_ids is None else [*as_typed(table.item_ids, is_text=False)])


def _first_lines(path: Path) -> list[str]:
    """Return the first two lines."""
    with _reading(path, OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\r\n") for line in islice(file, 2)]
    if not lines or not lines[0].strip():
        raise UserError(f"{path} begins with an empty line, so it is not a table.")
    return lines


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _sides(arrays: dict[str, Matrix], path: Path, ordered: bool) -> VectorTable:
    """Tell users from items by the names of matrices; without names, two `ordered` ones are users, then items."""
    users = [name for name in arrays if name.lower().startswith("user")]
    items = [name for name in arrays if name.lower().startswith("item")]
    if len(users) == len(items) == 1:
        names = (users[0], items[0])
    elif len(arrays) == 1:
        (name,) = arrays
        return VectorTable(_matrix(arrays[name], path, name), origin=f"{path}, {name} {_shape(arrays[name])}")
    elif ordered and len(arrays) == 2:
        first, second = arrays
        names = (first, second)
    else:
        listed = ", ".join(f"{name} ({_shape(array)})" for name, array in list(arrays.items())[:8]) or "none"
        raise UserError(
            f"{path} must hold one matrix, or two whose names begin with user and item; its matrices are: {listed}."
        )
    sides = [_matrix(arrays[name], path, name) for name in names]
    origin = ", ".join(
        f"{side} {name} {_shape(arrays[name])}" for side, name in zip(("users", "items"), names, strict=True)
    )
    return VectorTable(sides[1], sides[0], origin=f"{path}, {origin}")


def _matrix(array: Matrix, path: Path, name: str) -> Matrix:
    if array.dtype.kind not in "fiu":
        raise UserError(f"{path}: {name} holds {array.dtype} values, but a table holds real numbers.")
    if array.ndim != 2 or not array.size:
        raise UserError(f"{path}: {name} has the shape {_shape(array)}, but a table has rows and columns.")
    return array


def _shape(array: Matrix) -> str:
    return " × ".join(f"{size:,}" for size in array.shape) or "a single value"


@contextmanager
def _reading(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Say in a sentence what is wrong where one of these errors is raised."""
    try:
        yield
    except errors as error:
        if any(word in str(error) for word in ("pickle", "Object arrays", "Python objects")):
            raise UserError(
                f"{path} is pickled, which can run any code when read: save it as a plain array of numbers."
            ) from error
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise UserError(
            f"{path} cannot be read ({reason}): it is damaged, cut short or of another type than its name says."
        ) from error


_READERS: dict[str, Callable[[Path], VectorTable]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".safetensors": _read_safetensors,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_word2vec,
    ".vec": _read_word2vec,
}
