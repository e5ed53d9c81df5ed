# SPDX-License-Identifier: Apache-2.0
"""Read what a server has logged, for an update: every event and every described item that a run does not know yet."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from legcf.core.columns import FrameColumns
from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.reading.encode import as_integers
from legcf.features.coder import FeatureColumn, as_written, float_or_none
from legcf.server.state.event_log import EventLog, LogMark
from legcf.server.state.log_entries import TAKEN_BACK, Described
from legcf.training.run_folder import TrainedModel
from legcf.updating.cold import ItemTable
from legcf.updating.merge import Changes

_SCHEMA = {
    FrameColumns.USER: pl.String,
    FrameColumns.ITEM: pl.String,
    FrameColumns.TIME: pl.Float64,
    FrameColumns.WEIGHT: pl.Float64,
}
_PAIR = [FrameColumns.USER, FrameColumns.ITEM]


@dataclass(frozen=True, eq=False)
class Reported:
    """Hold what is new to a run; `mark` is that of a run that knows it all."""

    mark: LogMark
    pairs: pl.DataFrame
    """A row for each event by which a user took an item; with weights where some event has one."""
    changes: Changes
    about: ItemTable | None
    """Items that were described, where the run learns from features."""

    @property
    def is_empty(self) -> bool:
        return self.pairs.is_empty() and self.about is None and self.changes.is_empty


def new_events(folder: Path | str, trained: TrainedModel) -> Reported:
    """Return what stands behind the run's mark."""
    log, before = EventLog(folder), LogMark.from_card(trained.metrics)
    try:
        mark, events = log.since(before)
        rows = [(event.user, event.item, event.time, event.weight) for event in events]
        described = log.descriptions(before.described if before is not None and before.log == log.name else 0)
        frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    except (sqlite3.Error, TypeError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"The log of events in {folder} is damaged ({reason}): take another copy.") from error
    finally:
        log.close()
    pairs = frame.with_columns(
        # Not to be guessed: a log has seconds since 1970. A later time than now is of a clock that was set back since,
        # and nothing else would count beside it, for half-lives begin with the latest time.
        (pl.col(FrameColumns.TIME).clip(0, time.time()) * 1e6).cast(pl.Int64).cast(pl.Datetime("us")),
        _as_in(trained.users, frame[FrameColumns.USER]),
        _as_in(trained.items, frame[FrameColumns.ITEM]),
    )
    taken, changes = _sorted(pairs, trained)
    return Reported(mark, taken, changes, _table(described, trained))


def _sorted(events: pl.DataFrame, trained: TrainedModel) -> tuple[pl.DataFrame, Changes]:
    """Return the events that still count as taken, and what else they change; their order is that of the log."""
    weight = pl.col(FrameColumns.WEIGHT)
    if events[FrameColumns.WEIGHT].null_count() == len(events):
        return events.drop(FrameColumns.WEIGHT), Changes()
    last = pl.col("position").filter(weight == TAKEN_BACK).max().over(_PAIR).fill_null(-1)
    counted = (
        events.with_row_index("position").cast({"position": pl.Int64}).with_columns(counts=pl.col("position") > last)
    )
    marked = counted.with_columns(disliked=(pl.col("counts") & (weight < 0)).any().over(_PAIR))
    taken = marked.filter(pl.col("counts") & ~pl.col("disliked"))
    withdrawn = marked.filter((weight == TAKEN_BACK).any().over(_PAIR) | pl.col("disliked"))
    own = trained.ranking.histories.weights
    mean = 1.0 if own is None or not len(own) else float(own.mean())
    changes = Changes(
        *(one.select(_PAIR).unique(maintain_order=True) for one in (withdrawn, marked.filter("disliked")))
    )
    return taken.select(*_PAIR, FrameColumns.TIME, weight.fill_null(mean)), changes


def _table(described: Sequence[Described], trained: TrainedModel) -> ItemTable | None:
    """Return the columns that the run learns from; a list of values is what a column of tags has."""
    if trained.features is None or not described:
        return None
    names = pl.Series([entry.item for entry in described], dtype=pl.String)
    coder = trained.features.coder
    columns = [_column(one, [entry.features.get(one.name) for entry in described]) for one in coder.columns]
    if not any(column.name == FrameColumns.TITLE for column in columns) and any(entry.title for entry in described):
        columns.append(
            pl.Series(FrameColumns.TITLE, [entry.title or entry.item for entry in described], dtype=pl.String)
        )
    return ItemTable(IdMap.of(_as_in(trained.items, names).to_list(), "item"), pl.DataFrame(columns))


def _column(column: FeatureColumn, said: list[Any]) -> pl.Series:
    if column.kind == "number":
        return pl.Series(column.name, [float_or_none(value) for value in said], dtype=pl.Float64)
    if any(isinstance(value, list) for value in said):
        return pl.Series(column.name, [column.tokens(value) for value in said], dtype=pl.List(pl.String))
    return pl.Series(column.name, [None if value is None else as_written(value) for value in said], dtype=pl.String)


def _as_in(ids: IdMap, written: pl.Series) -> pl.Series:
    """Return ids of the log, which are text, as numbers where the model's are and all of these can be."""
    if ids.is_text:
        return written
    numbers = as_integers(written)
    return written if numbers is None else numbers
