# SPDX-License-Identifier: Apache-2.0
"""Turn tables of interactions into pairs of positions: find columns, check values, map ids; lazily, in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions, seconds_of
from legcf.data.preparing.blocks import Batch
from legcf.data.preparing.pair_source import PairSource
from legcf.data.reading.columns import Columns, find_column, find_columns, listed
from legcf.data.reading.diagnose import Files
from legcf.data.reading.encode import as_text, id_column, id_lookup
from legcf.data.reading.formats import RAGGED, find_format, scan_pairs
from legcf.data.reading.item_table import match_titles, read_titles
from legcf.data.reading.kinds import to_number, to_text
from legcf.data.reading.rows import ALL_COLUMNS, sort_rows
from legcf.data.reading.times import read_times, ticks_per_second

# Files up to this size are read once and kept; larger ones are scanned several times, in batches.
_KEEP_BYTES = 256 << 20
_BATCH_ROWS = 2_000_000


class NoInteractions(UserError):
    """Say that there is no row, or none whose rating is high enough."""

    def __init__(self, sentence: str, rated_too_low: int) -> None:
        super().__init__(sentence)
        self.rated_too_low = rated_too_low


def open_files(paths: Sequence[Path], options: DataOptions, name: str | None = None) -> PairSource:
    frames, columns = [], {}
    for path in paths:
        with Files(options, {path: None}).reading():
            frame = scan_pairs(path, options)
            schema = frame.collect_schema()
            form = find_format(path, options)
        names = [name for name in schema.names() if name != RAGGED]
        required = [find_column(names, "user", options.user_col), find_column(names, "item", options.item_col)]
        if options.header is None and form.lacks_header(names, required):
            raise UserError(
                f"{path} seems to have no header, for its first line is {listed(names)}: say `--no-header` to read it"
                " as a row (columns go by number then, by default `--user-col 1 --item-col 2`), or `--header` if it is"
                " one."
            )
        all_columns = find_columns(names, options, str(path), form.remedy)
        columns[path] = all_columns if options.uses_ratings else replace(all_columns, rating=None)
        frames.append(_select(frame, schema, all_columns, options, str(path)))
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
    files = Files(options, columns)
    with files.reading():
        united = _united(frames)
        if sum(path.stat().st_size for path in paths) <= _KEEP_BYTES:
            united = united.collect(optimizations=ALL_COLUMNS).lazy()
    return open_frame(united, options, name or paths[0].name.split(".")[0], where, files)


def select_pairs(frame: pl.LazyFrame, options: DataOptions, where: str) -> pl.LazyFrame:
    """Select the columns of a frame of any layout and call them user, item, rating, time, title."""
    columns = find_columns(frame.collect_schema().names(), options, where)
    frame = _whole_numbers(frame, (columns.user, columns.item))
    return _select(frame, frame.collect_schema(), columns, options, where)


def _whole_numbers(frame: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """Return columns of whole numbers and NaN as integers and null: with NaN in it, pandas makes numbers fractions."""
    schema = frame.collect_schema()
    floats = [name for name in names if schema[name].is_float()]
    if not floats:
        return frame
    columns = frame.select(floats).collect()
    turned = [
        pl.col(name).fill_nan(None).cast(pl.Int64)
        for name in floats
        if columns[name].is_nan().any() and (columns[name].drop_nans().drop_nulls() % 1 == 0).all()
    ]
    return frame.with_columns(turned)


def open_frame(
    frame: pl.LazyFrame, options: DataOptions, name: str, where: str, files: Files | None = None
) -> PairSource:
    """Open a frame with the columns of `select_pairs` as a source."""
    files = files or Files(options)
    times = None
    with files.reading():
        schema = frame.collect_schema()
        rows = sort_rows(frame, options, where, files)
        frame = rows.interactions
        if "time" in schema:
            frame, times = read_times(frame, options.date_format, partial(_complaint, files, where))
        all_users = [one.select("user") for one in (frame, rows.dislikes) if one is not None]
        users = _lookup(pl.concat(all_users), "user", where, files)
        items = _lookup(frame, "item", where, files)
    if rows.num_kept == 0:
        rated = "" if options.min_rating is None else f" rated {options.min_rating:g} or more"
        raise NoInteractions(f"{where} holds no interactions{rated}.", rows.num_read)
    others = rows.num_dislikes + rows.num_missing
    return _Table(
        name=name,
        where=where,
        users=users[0],
        items=items[0],
        num_rows=rows.num_kept,
        rated_too_low=rows.num_read - rows.num_kept - others,
        num_dislikes=rows.num_dislikes,
        num_missing=rows.num_missing if options.missing == "drop" else 0,
        has_ratings="rating" in schema,
        has_weights=True,
        times=times,
        frame=frame,
        disliked=rows.dislikes,
        lookups=(users[1], items[1]),
        files=files,
        options=options,
    )


def _complaint(files: Files, where: str, value: str | None, problem: str) -> UserError:
    """Return an error about a time, with its line if it can be found again."""
    if value is None:
        return files.error(f"{where} {problem}")
    return UserError(f"{files.line_of_time(value) or where} {problem}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table(PairSource):
    """Read a frame with a row for each pair, whose ids have been looked up."""

    frame: pl.LazyFrame
    disliked: pl.LazyFrame | None
    """Rows of dislikes, with the same columns."""
    lookups: tuple[pl.DataFrame, pl.DataFrame]
    """For users and items, a frame to join with: an id and its position."""
    files: Files
    options: DataOptions

    def batches(self) -> Iterator[Batch]:
        repeats = self.options.repeat == "allow"
        is_weighed = repeats or self.options.weighs
        kind = pl.Float32 if repeats else pl.Float64  # rows of a pair are added up before their sum is rounded
        weights = [self._row_weight()[0].cast(kind).alias("weight")] if is_weighed else []
        encoded = self._positions_of(self.frame, *weights, *([] if self.times is None else [pl.col("time")]))
        with self.files.reading():
            for batch in encoded.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=False, engine="streaming"):
                times = None if self.times is None else batch["time"].to_numpy()
                amounts = batch["weight"].to_numpy() if is_weighed else None
                yield Batch(_positions(batch, "user"), _positions(batch, "item"), times, weights=amounts)

    def weighed_at(self) -> float | None:
        return self._row_weight()[1]

    def _row_weight(self) -> tuple[pl.Expr, float | None]:
        """Return how much a row counts, halved once per half-life since the latest of all, and that latest time."""
        weight = pl.col("weight") if self.options.weight_col is not None else pl.lit(1.0)
        if self.options.event_weights is not None:
            weight = pl.col("kind_weight")
        at = None
        if self.options.half_life is not None:
            ticks = None if self.times is None else ticks_per_second(self.times)
            if ticks is None:
                problem = "has no time column" if self.times is None else "has times that are plain numbers"
                raise UserError(f"{self.where} {problem}, and `--half-life` needs times: name them with `--time-col`.")
            latest = float(self.frame.select(pl.col("time").max()).collect(engine="streaming").item())
            age = (latest - to_number(pl.col("time"))) / (ticks * seconds_of(self.options.half_life))
            weight, at = weight * pl.lit(2.0).pow(-age), latest / ticks
        return weight, at

    def titles(self, items: IdMap) -> list[str] | None:
        if self.options.titles is not None or "title" not in self.frame.collect_schema():
            return read_titles(items, self.options)
        pairs = self.frame.select(as_text("item"), "title").unique().collect(engine="streaming")
        return match_titles(items, pairs)

    def dislikes(self) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
        """Return users and items of dislikes; items that nobody has are not among those that can be recommended."""
        if self.disliked is None:
            return None
        pairs = self._positions_of(self.disliked).drop_nulls().unique().collect(engine="streaming")
        return _positions(pairs, "user"), _positions(pairs, "item")

    def _positions_of(self, frame: pl.LazyFrame, *columns: pl.Expr) -> pl.LazyFrame:
        """Return a row for each pair as positions, with other columns."""
        users, items = self.lookups
        return (
            frame.join(users.lazy(), on="user", how="left")
            .join(items.lazy(), on="item", how="left")
            .select("user_position", "item_position", *columns)
        )


def _positions(batch: pl.DataFrame, kind: str) -> NDArray[np.int32]:
    return batch[f"{kind}_position"].to_numpy()


def _select(frame: pl.LazyFrame, schema: pl.Schema, columns: Columns, options: DataOptions, where: str) -> pl.LazyFrame:
    selected = [
        id_column(columns.user, schema[columns.user], "user", where),
        id_column(columns.item, schema[columns.item], "item", where),
    ]
    if columns.rating is None and options.uses_ratings:
        option = "--min-rating" if options.min_rating is not None else "--dislike-below"
        raise UserError(f"{where} has no rating column for `{option}`: name it with `--rating-col`.")
    if columns.time is not None:
        selected.append(pl.col(columns.time).alias("time"))
    for convert, roles in ((to_number, ("rating", "weight")), (to_text, ("title", "event"))):
        found = {role: column for role in roles if (column := getattr(columns, role)) is not None}
        selected += [convert(pl.col(column)).alias(role) for role, column in found.items()]
    if RAGGED in schema:
        selected.append(pl.col(RAGGED))
    return frame.select(selected)


def _united(frames: list[pl.LazyFrame]) -> pl.LazyFrame:
    """Return several files as one frame; where their ids have different types, all are text."""
    schemas = [frame.collect_schema() for frame in frames]
    names = [name for name in schemas[0].names() if all(name in schema for schema in schemas)]
    mixed = [name for name in names if len({schema[name] for schema in schemas}) > 1]
    casts = [as_text(name) if name in mixed else pl.col(name) for name in names]
    return pl.concat([frame.select(casts) for frame in frames]) if len(frames) > 1 else frames[0]


def _lookup(frame: pl.LazyFrame, kind: str, where: str, files: Files) -> tuple[IdMap, pl.DataFrame]:
    distinct = frame.select(pl.col(kind).unique()).collect(engine="streaming").to_series()
    if distinct.dtype == pl.String and files.are_text():
        if distinct.str.contains("\0", literal=True).any():
            raise files.error(f"{where} holds a NUL byte in a {kind} id")
        names = {header[0 if kind == "user" else 1] for header in files.headers()}
        if files.options.header is None and distinct.is_in(list(names)).any():
            raise UserError(
                f"{where} has a {kind} id that is called like its column: say `--no-header` if the first line is a row "
                "like the others, or `--header` if it names the columns."
            )
        not_a_number = distinct.str.to_lowercase() == "nan"
        others = distinct.filter(~not_a_number)
        if not_a_number.any() and len(others) and id_lookup(others, kind, untyped=True)[0].values.dtype != object:
            raise files.error(f"{where} holds NaN for a {kind} id")
    return id_lookup(distinct, kind, files.are_text())
