# SPDX-License-Identifier: Apache-2.0
"""Read times as people write them: numbers, ISO 8601, dates with a stated format. What could mean two days is refused.

Only the order of times matters here, so numbers stay what they are; dates become microseconds since 1970, in UTC where
no offset is written.
"""

import re
from collections.abc import Callable

import polars as pl

from legcf.core.errors import UserError
from legcf.data.reading.kinds import to_number, to_text

Complain = Callable[[str | None, str], UserError]
"""Builds a UserError from (value, or None where it is missing; complaint) and adds file and line."""

_TIME = pl.col("time")
_NUMBER = to_number(_TIME)
_AS_WRITTEN = to_text(_TIME)
_TEXT = _TIME.str.strip_chars().str.replace(",", ".", literal=True)
# The shape of a text has 0 for every digit. A column has few shapes, and each is a format that polars reads fast.
_CLOCK = (
    r"(?:(?P<gap>[Tt ])00?(?P<colon>:?)00(?P<seconds>(?P=colon)00(?P<fraction>\.0+)?)?"
    r"(?P<space> ?)(?:(?P<name>Z|z|UTC|GMT)|(?P<offset>[+-]00(?::?00)?))?)?"
)
_ISO = re.compile(r"0000(?P<mark>[-/.]?)00(?P=mark)00" + _CLOCK)
_SLASHED = re.compile(r"00?(?P<mark>[-/.])00?(?P=mark)0000" + _CLOCK)
_WAYS = {
    "ISO 8601": (_ISO, ("%Y", "%m", "%d")),
    "day/month/year": (_SLASHED, ("%d", "%m", "%Y")),
    "month/day/year": (_SLASHED, ("%m", "%d", "%Y")),
}
_UNCLEAR = re.compile(
    r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?:[ T](\d{1,2}:\d{2})(:\d{2})?([.]\d+)?(\s?[AaPp][Mm])?)?"
)
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_REMEDY = (
    "write a number of seconds or milliseconds or a date such as 2024-01-31T10:00:00Z, or say how dates are written, "
    "as in `--date-format '%d %b %Y %H:%M'`"
)
_FIRST_ROWS = 10_000
# From 1973 to 2286, a time in one of these units has a number of digits that it has in no other.
_UNITS = {"seconds": 1e8, "milliseconds": 1e11, "microseconds": 1e14, "nanoseconds": 1e17}


def read_times(frame: pl.LazyFrame, date_format: str | None, complain: Complain) -> tuple[pl.LazyFrame, str]:
    """Return the frame with its column `time` as numbers that sort as the times do, and how they were written."""
    dtype = frame.collect_schema()["time"]
    if dtype in (pl.Date, pl.Datetime):
        if date_format is not None:
            raise complain(None, "has dates, not text, for times: leave `--date-format` out")
        dates = _TIME.cast(pl.Datetime("us")).cast(pl.Int64)
        if _counted(frame, missing=dates.is_null())["missing"]:
            raise complain(None, "has no time in some rows")
        return frame.with_columns(dates), "dates"
    if dtype != pl.String and not dtype.is_numeric():
        raise complain(None, f"has times of the type {dtype}: they must be numbers, dates or text")
    within = {unit: _NUMBER.is_between(least, 100 * least, closed="left") for unit, least in _UNITS.items()}
    counts = _counted(
        frame,
        missing=_TIME.is_null(),
        fractions=_TIME.cast(pl.Int64, strict=False).is_null() | pl.lit(dtype.is_float() or dtype.is_decimal()),
        others=~_NUMBER.is_finite().fill_null(False),
        **within,
    )
    if counts["missing"]:
        raise complain(None, "has no time in some rows")
    if date_format is not None:
        return _formatted(frame.with_columns(_AS_WRITTEN), date_format, complain)
    if counts["others"] and dtype == pl.String:
        return _dates(frame, complain)
    if counts["others"]:
        raise complain(None, "has times that are not finite numbers")
    used = sorted((unit for unit in within if counts[unit]), key=lambda unit: -counts[unit])
    are_times = sum(counts[unit] for unit in used) == counts["rows"]
    if are_times and len(used) > 1:
        odd = _first(frame, within[used[1]])
        raise complain(odd, f"has the time {odd} in {used[1]} where others are in {used[0]}: write all in one unit")
    numbers = _TIME.cast(pl.Float64 if counts["fractions"] else pl.Int64)
    return frame.with_columns(numbers), f"{used[0]} since 1970" if are_times and used else "numbers"


def ticks_per_second(written: str) -> float | None:
    """Return how many units of `read_times` make a second, by how it says that times were written; None if unknown."""
    if written == "numbers":
        return None
    numbers = {f"{unit} since 1970": least / _UNITS["seconds"] for unit, least in _UNITS.items()}
    return numbers.get(written, 1e6)  # dates have become microseconds


def _formatted(frame: pl.LazyFrame, date_format: str, complain: Complain) -> tuple[pl.LazyFrame, str]:
    # Python's `.%f`, any number of digits after the point, is `%.f` for polars.
    dates = _instant(_TIME, date_format.replace(".%f", "%.f"))
    bad = _first(frame, dates.is_null())
    if bad is not None:
        raise complain(bad, f"has the time {bad!r}, which `--date-format '{date_format}'` does not fit")
    return frame.with_columns(dates), date_format


def _dates(frame: pl.LazyFrame, complain: Complain) -> tuple[pl.LazyFrame, str]:
    # The first rows mostly show every shape there is; only if they do not, all rows are looked at for them.
    for looked_at in (frame.head(_FIRST_ROWS), frame):
        shapes = looked_at.select(_TEXT.str.replace_all("[0-9]", "0").unique()).collect(engine="streaming").to_series()
        formats = {name: _formats(shapes.to_list(), *way) for name, way in _WAYS.items()}
        ways = {name: pl.coalesce(_instant(_TEXT, one) for one in few) for name, few in formats.items() if few}
        unread = {name: instants.is_null() for name, instants in ways.items()}
        unread["numbers"] = ~_NUMBER.is_finite().fill_null(False)
        misses = _counted(frame, **unread)
        fitting = [name for name in ways if not misses[name]]
        if fitting:
            for other in fitting[1:]:
                two_readings = _first(frame, ways[fitting[0]] != ways[other])
                if two_readings is not None:
                    raise complain(two_readings, _unreadable(two_readings))
            return frame.with_columns(ways[fitting[0]].alias("time")), fitting[0]
    nearest = min(unread, key=misses.__getitem__)
    value = _first(frame, unread[nearest]) or ""
    if misses[nearest] < misses["rows"]:
        raise complain(value, f"has {value!r} where a time should be, and others are {nearest}: write all in one way")
    raise complain(value, _unreadable(value))


def _formats(shapes: list[str], pattern: re.Pattern[str], date_parts: tuple[str, str, str]) -> list[str]:
    """Return the formats of the shapes that fit a pattern."""
    formats = set()
    for match in filter(None, map(pattern.fullmatch, shapes)):
        date = match["mark"].join(date_parts)
        if match["gap"] is not None:
            seconds = match["seconds"] and f"{match['colon']}%S{'%.f' if match['fraction'] else ''}"
            zone = match["name"] or (match["offset"] and "%#z")
            date += f"{match['gap']}%H{match['colon']}%M{seconds or ''}{match['space']}{zone or ''}"
        formats.add(date)
    return sorted(formats)


def _instant(text: pl.Expr, date_format: str) -> pl.Expr:
    """Convert texts of this format to microseconds since 1970, others to null."""
    return text.str.to_datetime(date_format, time_unit="us", strict=False).cast(pl.Int64)


def _unreadable(value: str) -> str:
    """Say what is wrong with a date that is not understood: it may mean two days, or be of no known format."""
    slashed = _UNCLEAR.fullmatch(value.strip())
    if slashed is None or min(int(slashed[1]), int(slashed[3])) > 12:
        return f"has {value!r} where a time should be: {_REMEDY}"
    first, mark, second, year, minutes, seconds, fraction, half = slashed.groups()
    clock = "" if minutes is None else f" %{'I' if half else 'H'}:%M"
    clock += (":%S" if seconds else "") + (".%f" if fraction else "") + (" %p" if half else "")
    year_format = "%Y" if len(year) == 4 else "%y"
    formats = [f"--date-format '{way}{mark}{year_format}{clock}'" for way in (f"%d{mark}%m", f"%m{mark}%d")]
    readings = [(int(first), int(second), formats[0]), (int(second), int(first), formats[1])]
    possible = [(f"{day} {_MONTHS[month - 1]}", how) for day, month, how in readings if month <= 12]
    days = " or ".join(f"{day} {year}" for day, _ in possible)
    return f"has the date {value!r}, which is {days}: say {' or '.join(f'`{how}`' for _, how in possible)}"


def _counted(frame: pl.LazyFrame, **masks: pl.Expr) -> dict[str, int]:
    """Count the rows, and those that each mask marks, in one pass."""
    counts = frame.select(pl.len().alias("rows"), *(mask.sum().alias(name) for name, mask in masks.items()))
    return counts.collect(engine="streaming").row(0, named=True)


def _first(frame: pl.LazyFrame, mask: pl.Expr) -> str | None:
    """Return the first time, as text, that a mask marks."""
    first = frame.filter(mask).select(_AS_WRITTEN).head(1).collect()
    return first.item() if len(first) else None
