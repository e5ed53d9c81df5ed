# SPDX-License-Identifier: Apache-2.0
"""Check the rows of a table and sort them: those that lack a value, interactions, dislikes, and all others."""

from dataclasses import dataclass

import polars as pl

from legcf.core.errors import UserError
from legcf.data.options import OTHER_KINDS, DataOptions
from legcf.data.reading.columns import listed
from legcf.data.reading.diagnose import Files
from legcf.data.reading.formats import RAGGED
from legcf.data.reading.kinds import to_text

# Ragged lines are only noticed where all columns are read.
ALL_COLUMNS = pl.QueryOptFlags(projection_pushdown=False)
_LACKS = {
    "user": "has no user id",
    "item": "has no item id",
    "rating": "has no number for a rating",
    "time": "has no time",
    "weight": "has no weight",
    "event": "has no kind of event",
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Hold the rows that count, and how many others there were."""

    interactions: pl.LazyFrame
    dislikes: pl.LazyFrame | None
    """Rows of items that a user does not want; None where the options know no dislikes."""
    num_read: int
    num_kept: int
    """How many rows are interactions."""
    num_dislikes: int = 0
    num_missing: int = 0
    """Rows that were left out, for they lack a value."""


def sort_rows(frame: pl.LazyFrame, options: DataOptions, where: str, files: Files) -> Rows:
    """Check a frame with the columns of `select_pairs`, leave out or refuse what is missing, and sort the rest."""
    schema = frame.collect_schema()
    used = [name for name in _LACKS if name in schema and (name != "rating" or options.uses_ratings)]
    lacking = {name: _is_missing(name, schema) for name in used}
    is_lacking = pl.any_horizontal(list(lacking.values()))
    wrong = {} if options.missing == "drop" else {_LACKS[name]: missing for name, missing in lacking.items()}
    if "weight" in schema:
        positive = pl.col("weight").is_finite() & (pl.col("weight") > 0)
        wrong["has no positive number for a weight"] = ~positive & ~lacking["weight"]
    if RAGGED in schema:
        wrong["has too many or too few fields"] = pl.col(RAGGED)
    headers = files.headers()
    if headers and schema["user"] == schema["item"] == pl.String:
        same = [(pl.col("user") == user) & (pl.col("item") == item) for user, item in headers]
        wrong["repeats its header"] = pl.any_horizontal(same)
    if "event" in lacking:
        frame = _weighed_by_kind(frame, options, where)
    liked, disliked = _meaning(options)
    counts = {"rows": pl.len(), "lacking": is_lacking.sum(), "kept": (liked & ~is_lacking).sum()}
    counts |= {"disliked": (disliked & ~is_lacking).sum()} | {problem: one.sum() for problem, one in wrong.items()}
    counted = frame.select(expression.alias(name) for name, expression in counts.items())
    row = counted.collect(engine="streaming", optimizations=ALL_COLUMNS).row(0, named=True)
    for problem in wrong:
        if row[problem]:
            raise _error(files, where, problem, row[problem], row["lacking"])
    if options.missing == "drop":
        frame = frame.filter(~is_lacking)
    numbers = (int(row[name]) for name in ("rows", "kept", "disliked", "lacking"))
    if not (options.uses_ratings or options.event_weights is not None):
        return Rows(frame, None, *numbers)
    return Rows(frame.filter(liked), frame.filter(disliked) if options.has_dislikes else None, *numbers)


def _error(files: Files, where: str, problem: str, count: int, lacking: int) -> UserError:
    if problem not in _LACKS.values():
        return files.error(f"{where} {problem} in {count:,} rows")
    rows = "1 row lacks" if lacking == 1 else f"{lacking:,} rows lack"
    advice = f"{rows} a value: mend that, or leave such rows out with `--missing drop`"
    in_memory = "" if files.columns else " (null or NaN)"
    return files.error(f"{where} {problem} in {count:,} rows{in_memory}", advice)


def _is_missing(name: str, schema: pl.Schema) -> pl.Expr:
    column = pl.col(name)
    return column.is_null() | column.is_nan() if schema[name].is_float() else column.is_null()


def _weighed_by_kind(frame: pl.LazyFrame, options: DataOptions, where: str) -> pl.LazyFrame:
    """Multiply the weight of every row by that of its kind; refuse kinds that have none."""
    weights = options.weights_of_kinds
    kind = to_text(pl.col("event"))
    found = frame.select(kind.unique()).collect(engine="streaming").to_series().drop_nulls().sort().to_list()
    unknown = [one for one in found if one not in weights]
    if unknown and OTHER_KINDS not in weights:
        raise UserError(
            f"{where} has events of the kinds {listed(found)}, and `--event-weights` says nothing of {listed(unknown)}:"
            f" name them, or give all others a weight with {OTHER_KINDS}=0.5, or {OTHER_KINDS}=0 to leave them out."
        )
    named = {one: weights.get(one, weights.get(OTHER_KINDS)) for one in found}
    weight = kind.replace_strict(named, default=None, return_dtype=pl.Float64)
    own = pl.col("weight") if "weight" in frame.collect_schema() else pl.lit(1.0)
    return frame.with_columns((own * weight).alias("kind_weight"))


def _meaning(options: DataOptions) -> tuple[pl.Expr, pl.Expr]:
    """Return which rows are interactions, and which are dislikes."""
    liked, disliked = pl.lit(True), pl.lit(False)
    if options.event_weights is not None:
        liked, disliked = pl.col("kind_weight") > 0, pl.col("kind_weight") < 0
    if options.dislike_below is not None:
        is_low = pl.col("rating") < options.dislike_below
        liked, disliked = liked & ~is_low, disliked | is_low
    if options.min_rating is not None:
        liked = liked & (pl.col("rating") >= options.min_rating)
    return liked, disliked
