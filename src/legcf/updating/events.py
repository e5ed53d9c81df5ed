# SPDX-License-Identifier: Apache-2.0
"""What a server was told, for an update: every event that a run does not know yet, once each."""

from pathlib import Path

import polars as pl

from legcf.data.ids import IdMap
from legcf.data.kinds import to_integer
from legcf.data.options import DataOptions
from legcf.serving.events import EventLog, LogMark
from legcf.trained_model import TrainedModel

_COLUMNS = {"user": pl.String, "item": pl.String, "timestamp": pl.Float64}


def new_events(folder: Path | str, trained: TrainedModel) -> tuple[LogMark, pl.DataFrame]:
    """A row for each event behind the run's mark, and the mark of a run that has them."""
    log = EventLog(folder)
    mark, events = log.since(LogMark.from_card(trained.metrics))
    rows = [(event.user, event.item, event.time) for event in events]
    log.close()
    frame = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    return mark, frame.with_columns(_as_in(trained.users, frame["user"]), _as_in(trained.items, frame["item"]))


def options_of_events(half_life: str | None) -> DataOptions:
    """How the frame of `new_events` is read."""
    return DataOptions(user_col="user", item_col="item", time_col="timestamp", half_life=half_life)


def _as_in(ids: IdMap, written: pl.Series) -> pl.Series:
    """The log has text: numbers where the model's ids are numbers, if all are."""
    if ids.is_text:
        return written
    numbers = to_integer(written)
    return written if numbers.null_count() else numbers
