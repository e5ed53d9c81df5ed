"""Tables of interactions become pairs of positions: columns found, values checked, ids mapped; lazily, in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.data.blocks import Batch
from legcf.data.columns import Columns, find_columns
from legcf.data.diagnose import explained, reading
from legcf.data.encode import id_column, id_lookup
from legcf.data.formats import FIELD_COUNT, find_format, scan_pairs
from legcf.data.ids import IdMap
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.pipeline import PairSource
from legcf.data.splits import find_protocol
from legcf.data.titles import match_titles, titles_from
from legcf.errors import UserError

# Files up to this size are read once and kept; larger ones are scanned several times, in batches.
_KEEP_BYTES = 256 << 20
_BATCH_ROWS = 2_000_000
# Ragged lines are only noticed where all columns are read.
_ALL_COLUMNS = pl.QueryOptFlags(projection_pushdown=False)


def open_files(paths: Sequence[Path], options: DataOptions, name: str | None = None) -> PairSource:
    frames, found = [], []
    for path in paths:
        with reading([path], options, None):
            frame = scan_pairs(path, options)
            schema = frame.collect_schema()
        columns = find_columns(schema.names(), options, _with_hint(path, schema.names(), options))
        frames.append(_chosen(frame, schema, columns, options, str(path)))
        found.append(columns)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
    files = _Files(paths, options, found[0])
    with reading(paths, options, found[0]):
        united = _united(frames)
        if sum(path.stat().st_size for path in paths) <= _KEEP_BYTES:
            united = united.collect(optimizations=_ALL_COLUMNS).lazy()
    return open_frame(united, options, name or paths[0].name.split(".")[0], where, files)


@dataclass(frozen=True)
class _Files:
    """Where a frame came from, to find the line of a problem again."""

    paths: Sequence[Path] = ()
    options: DataOptions = DEFAULTS
    columns: Columns | None = None

    def error(self, otherwise: str) -> UserError:
        return (
            explained(self.paths, self.options, self.columns, otherwise) if self.paths else UserError(f"{otherwise}.")
        )

    def is_text(self) -> bool:
        return any(find_format(path, self.options).is_text for path in self.paths)


_NO_FILES = _Files()


def select_pairs(frame: pl.LazyFrame, options: DataOptions, where: str) -> pl.LazyFrame:
    """The columns of a frame of any layout, under their own names: user, item, rating, time, title."""
    schema = frame.collect_schema()
    return _chosen(frame, schema, find_columns(schema.names(), options, where), options, where)


def open_frame(
    frame: pl.LazyFrame, options: DataOptions, name: str, where: str, files: _Files = _NO_FILES
) -> PairSource:
    """A frame with the columns of `select_pairs` as a source."""
    with reading(files.paths, options, files.columns):
        schema = frame.collect_schema()
        num_rows = _checked_rows(frame, schema, options, where, files)
        frame = _with_time(frame, schema, options, where, files)
        if options.min_rating is not None:
            frame = frame.filter(pl.col("rating") >= options.min_rating)
        users = _lookup(frame, "user", where, files)
        items = _lookup(frame, "item", where, files)
    if num_rows == 0:
        raise UserError(f"{where} holds no interactions{'' if options.min_rating is None else ' rated so high'}.")
    has_time = "time" in frame.collect_schema()
    table = _Table(frame, users, items, has_time, where)
    return PairSource(
        name=name,
        where=where,
        users=users[0],
        items=items[0],
        num_rows=num_rows,
        batches=partial(_guarded, table, files),
        has_test=False,
        has_time=has_time,
        merge_duplicates=True,
        where_pair=table.where_pair,
        where_cold=lambda cold_users, cold_items: where,
        titles=partial(_titles, frame, options),
    )


@dataclass(frozen=True)
class _Table:
    frame: pl.LazyFrame
    users: tuple[IdMap, pl.DataFrame]
    items: tuple[IdMap, pl.DataFrame]
    has_time: bool
    where: str

    def batches(self) -> Iterator[Batch]:
        positions = ["user_position", "item_position", *(["time"] if self.has_time else [])]
        encoded = (
            self.frame.join(self.users[1].lazy(), on="user", how="left")
            .join(self.items[1].lazy(), on="item", how="left")
            .select(positions)
        )
        for batch in encoded.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=False, engine="streaming"):
            times = batch["time"].to_numpy() if self.has_time else None
            yield Batch(_positions(batch, "user"), _positions(batch, "item"), times)

    def where_pair(self, user: int, item: int) -> str:
        return f"{self.where}: item {self.items[0].values[item]} of user {self.users[0].values[user]}"


def _positions(batch: pl.DataFrame, kind: str) -> NDArray[np.int32]:
    return batch[f"{kind}_position"].to_numpy()


def _guarded(table: _Table, files: _Files) -> Iterator[Batch]:
    with reading(files.paths, files.options, files.columns):
        yield from table.batches()


def _with_hint(path: Path, names: Sequence[str], options: DataOptions) -> str:
    """Where the header looks as if it had another delimiter, say so."""
    others = [mark for mark in ",;\t|" if len(names) == 1 and mark in names[0]]
    return f"{path} (is `{others[0]}` its delimiter? then say `--delimiter '{others[0]}'`)" if others else str(path)


def _chosen(frame: pl.LazyFrame, schema: pl.Schema, columns: Columns, options: DataOptions, where: str) -> pl.LazyFrame:
    selected = [
        id_column(columns.user, schema[columns.user], "user", where),
        id_column(columns.item, schema[columns.item], "item", where),
    ]
    if columns.rating is not None:
        selected.append(pl.col(columns.rating).cast(pl.Float64, strict=False).alias("rating"))
    elif options.min_rating is not None:
        raise UserError(f"{where} has no rating column for `--min-rating`: name it with `--rating-col`.")
    if columns.time is not None and _wants_time(options):
        selected.append(pl.col(columns.time).alias("time"))
    if columns.title is not None and options.titles is None:
        selected.append(pl.col(columns.title).cast(pl.String, strict=False).alias("title"))
    if FIELD_COUNT in schema:
        selected.append(pl.col(FIELD_COUNT))
    return frame.select(selected)


def _wants_time(options: DataOptions) -> bool:
    return options.time_col is not None or (options.protocol is not None and find_protocol(options.protocol).needs_time)


def _united(frames: list[pl.LazyFrame]) -> pl.LazyFrame:
    """Several files as one; where their ids have different types, all are text."""
    schemas = [frame.collect_schema() for frame in frames]
    names = [name for name in schemas[0].names() if all(name in schema for schema in schemas)]
    mixed = [name for name in names if len({schema[name] for schema in schemas}) > 1]
    casts = [pl.col(name).cast(pl.String) if name in mixed else pl.col(name) for name in names]
    return pl.concat([frame.select(casts) for frame in frames]) if len(frames) > 1 else frames[0]


def _checked_rows(frame: pl.LazyFrame, schema: pl.Schema, options: DataOptions, where: str, files: _Files) -> int:
    """Count the rows, and what must not be there: missing ids, ratings that are no numbers, ragged lines."""
    counts = [pl.col(kind).null_count().alias(f"has no {kind} id") for kind in ("user", "item")]
    if "rating" in schema:
        bad = pl.col("rating").is_null() | pl.col("rating").is_nan()
        counts.append(bad.sum().alias("has no number for a rating"))
    if FIELD_COUNT in schema:
        counts.append(
            (pl.col(FIELD_COUNT) != pl.col(FIELD_COUNT).first()).sum().alias("has too many or too few fields")
        )
    rows = pl.len() if options.min_rating is None else (pl.col("rating") >= options.min_rating).sum()
    checked = frame.select(*counts, rows.alias("rows")).collect(engine="streaming", optimizations=_ALL_COLUMNS)
    row = checked.row(0, named=True)
    num_rows = int(row.pop("rows"))
    for problem, count in row.items():
        if count:
            raise files.error(f"{where} {problem} in {count:,} rows")
    return num_rows


def _with_time(frame: pl.LazyFrame, schema: pl.Schema, options: DataOptions, where: str, files: _Files) -> pl.LazyFrame:
    """Times as integers where they are integers or dates, else as floating-point numbers."""
    if "time" not in schema:
        return frame
    time, dtype = pl.col("time"), schema["time"]
    candidates = [time.cast(pl.Int64, strict=False), time.cast(pl.Float64, strict=False)]
    if dtype == pl.String:
        candidates.append(time.str.to_datetime(strict=False, ambiguous="null").cast(pl.Int64))
    elif dtype.is_temporal():
        candidates = [time.cast(pl.Datetime("us")).cast(pl.Int64)]
    elif dtype.is_float():
        candidates = candidates[1:]
    for candidate in candidates:
        bad = candidate.is_null() | (
            candidate.is_nan() if candidate is not candidates[0] and dtype.is_float() else False
        )
        try:
            count = frame.select(bad.sum()).collect(engine="streaming").item()
        except pl.exceptions.PolarsError:
            continue
        if not count:
            return frame.with_columns(candidate.alias("time"))
    raise files.error(f"{where} has rows whose time is neither a number nor a date")


def _lookup(frame: pl.LazyFrame, kind: str, where: str, files: _Files) -> tuple[IdMap, pl.DataFrame]:
    distinct = frame.select(pl.col(kind).unique()).collect(engine="streaming").to_series()
    if distinct.dtype == pl.String and files.is_text():
        if distinct.str.contains("\0", literal=True).any():
            raise files.error(f"{where} holds a NUL byte in a {kind} id")
        not_a_number = distinct.str.to_lowercase() == "nan"
        others = distinct.filter(~not_a_number)
        if not_a_number.any() and len(others) and id_lookup(others, kind, untyped=True)[0].values.dtype != object:
            raise files.error(f"{where} holds NaN for a {kind} id")
    return id_lookup(distinct, kind, files.is_text())


def _titles(frame: pl.LazyFrame, options: DataOptions, items: IdMap) -> list[str] | None:
    if options.titles is not None or "title" not in frame.collect_schema():
        return titles_from(items, options)
    pairs = frame.select(pl.col("item").cast(pl.String), "title").unique().collect(engine="streaming")
    return match_titles(items, pairs)


def frame_of(data: Any) -> pl.LazyFrame:
    """A polars frame as it is; a pandas one column by column, which needs no further package."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data.lazy()
    columns = {}
    for name in data.columns:
        column = data[name]
        is_plain = getattr(column.dtype, "kind", "O") in "biufM" and hasattr(column.dtype, "str")
        columns[str(name)] = (
            column.to_numpy() if is_plain else column.astype(object).where(column.notna(), None).tolist()
        )
    return pl.DataFrame(columns, strict=False).lazy()
