# SPDX-License-Identifier: Apache-2.0
"""Times as people write them: read, or refused with a line and a remedy; never guessed."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.reading.times import read_times
from legcf.data.source import load_data

TIMED = DataOptions(protocol="temporal")


def read(values: Sequence[Any], date_format: str | None = None) -> tuple[list[Any], str]:
    frame = pl.DataFrame({"time": pl.Series(values)}).lazy()
    timed, how = read_times(frame, date_format, lambda value, problem: UserError(f"row {value} {problem}"))
    return timed.collect()["time"].to_list(), how


def micros(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2024-01-11", "2024-01-11T00:00:00+00:00"),
        ("2024/01/11", "2024-01-11T00:00:00+00:00"),
        ("2024-01-11 10:30", "2024-01-11T10:30:00+00:00"),
        ("2024-01-11T10:30:07", "2024-01-11T10:30:07+00:00"),
        ("2024-01-11T10:30:07Z", "2024-01-11T10:30:07+00:00"),
        ("2024-01-11t10:30:07z", "2024-01-11T10:30:07+00:00"),
        (" 2024-01-11 10:30:07 UTC ", "2024-01-11T10:30:07+00:00"),
        ("2024-01-11 10:30:07GMT", "2024-01-11T10:30:07+00:00"),
        ("2024-01-11T10:30:07+02:00", "2024-01-11T10:30:07+02:00"),
        ("2024-01-11T10:30:07-0330", "2024-01-11T10:30:07-03:30"),
        ("2024-01-11T10:30:07 +05", "2024-01-11T10:30:07+05:00"),
        ("2024-01-11T10:30:07.5", "2024-01-11T10:30:07.500000+00:00"),
        ("2024-01-11T10:30:07,123Z", "2024-01-11T10:30:07.123000+00:00"),
        ("2024-01-11T10:30:07.123456789Z", "2024-01-11T10:30:07.123456+00:00"),
        ("20240111T103007Z", "2024-01-11T10:30:07+00:00"),
        ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59+00:00"),
    ],
)
def test_iso_8601(text: str, same: str) -> None:
    assert read([text, "2000-01-01"]) == ([micros(same), micros("2000-01-01T00:00:00+00:00")], "ISO 8601")


@given(st.lists(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)), min_size=2, max_size=6))
def test_dates_sort_as_they_should(moments: list[dt.datetime]) -> None:
    order = sorted(range(len(moments)), key=moments.__getitem__)
    zoned = [moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=30 * (n % 5)))) for n, moment in enumerate(moments)]
    for texts, expected in (
        ([moment.isoformat() for moment in moments], order),
        ([moment.isoformat(" ") for moment in zoned], sorted(order, key=zoned.__getitem__)),
    ):
        times, how = read(texts)
        assert how == "ISO 8601"
        assert [times[n] for n in expected] == sorted(times)


@pytest.mark.parametrize(
    ("values", "how"),
    [
        (["1600000000", "1600000001"], "seconds since 1970"),
        ([1_600_000_000_123, 1_600_000_000_000], "milliseconds since 1970"),
        (["1600000000.25", "1600000001"], "seconds since 1970"),
        ([3, 1, 2], "numbers"),
        (["1e3", "2.5", "-7"], "numbers"),
    ],
)
def test_numbers_stay_as_they_are(values: list[Any], how: str) -> None:
    assert read(values) == ([float(value) for value in values], how)


def test_dates_of_frames() -> None:
    day = dt.datetime(2024, 1, 11, tzinfo=dt.UTC)
    assert read([day.date()])[0] == read([day])[0] == read([day.replace(tzinfo=None)])[0] == [micros(day.isoformat())]


@pytest.mark.parametrize(
    ("values", "date_format", "first"),
    [
        (["01/12/2020", "02/12/2020"], "%d/%m/%Y", "2020-12-01T00:00:00+00:00"),
        (["01/12/2020", "02/12/2020"], "%m/%d/%Y", "2020-01-12T00:00:00+00:00"),
        (["1.12.20 9:05"], "%d.%m.%y %H:%M", "2020-12-01T09:05:00+00:00"),
        (["1/12/2020 3:45 PM"], "%m/%d/%Y %I:%M %p", "2020-01-12T15:45:00+00:00"),
        (["5 Jan 2020 10:00:00.250"], "%d %b %Y %H:%M:%S.%f", "2020-01-05T10:00:00.250000+00:00"),
        (["05.01.2020 10:00 +0200"], "%d.%m.%Y %H:%M %z", "2020-01-05T08:00:00+00:00"),
        ([20200105], "%Y%m%d", "2020-01-05T00:00:00+00:00"),
    ],
)
def test_a_stated_format(values: list[Any], date_format: str, first: str) -> None:
    times, how = read(values, date_format)
    assert (times[0], how) == (micros(first), date_format)


def test_a_day_that_no_month_has_settles_the_order() -> None:
    assert read(["01/12/2020", "31/12/2020"])[1] == "day/month/year"
    assert read(["01/12/2020", "12/31/2020"])[1] == "month/day/year"
    assert read(["01/01/2020", "02/02/2020"])[0] == read(["2020-01-01", "2020-02-02"])[0]


@pytest.mark.parametrize(
    ("values", "date_format", "said"),
    [
        (
            ["03/03/2020", "01/12/2020"],
            None,
            "row 01/12/2020 has the date '01/12/2020', which is 1 December 2020 or 12 January 2020: say "
            "`--date-format '%d/%m/%Y'` or `--date-format '%m/%d/%Y'`",
        ),
        (["1.12.2020 9:05"], None, "`--date-format '%d.%m.%Y %H:%M'` or `--date-format '%m.%d.%Y %H:%M'`"),
        (["1/12/20 9:05:01.5 pm"], None, "`--date-format '%m/%d/%y %I:%M:%S.%f %p'`"),
        (["25/12/20"], None, "which is 25 December 20: say `--date-format '%d/%m/%y'`"),
        (["31/12/2020", "12/31/2020"], None, "row 12/31/2020 has '12/31/2020' where a time should be"),
        (["2020-02-28", "2020-02-30"], None, "row 2020-02-30 has '2020-02-30'"),
        (["2020-02-28", "1600000000", "1600000001"], None, "row 2020-02-28 has '2020-02-28' where a time should be"),
        (["99/99/2020"], None, "--date-format"),
        (["5 Jan 2020"], None, "--date-format"),
        (["5 Jan 2020", "6 Mai 2020"], "%d %b %Y", "row 6 Mai 2020 has the time '6 Mai 2020', which `--date-format"),
        (["1600000000", "1600000001", "1600000001000"], None, "row 1600000001000 has the time 1600000001000 in millis"),
        ([1_600_000_000_000, 1_600_000_000], None, "write all in one unit"),
        ([1.0, float("nan")], None, "not finite"),
        ([1, None], None, "has no time"),
        ([True], None, "Boolean"),
        ([dt.date(2020, 1, 1)], "%Y", "leave `--date-format` out"),
    ],
)
def test_refused_with_a_remedy(values: list[Any], date_format: str | None, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read(values, date_format)
    assert said in str(caught.value)


ROWS = [(user, item, f"2024-03-{1 + (7 * user + item) % 28:02d}T10:00:00") for user in range(4) for item in range(6)]


@pytest.mark.parametrize(
    ("written", "date_format"),
    [
        ("%Y-%m-%dT%H:%M:%SZ", None),
        ("%Y-%m-%d %H:%M:%S UTC", None),
        ("%Y-%m-%dT%H:%M:%S.125000+00:00", None),
        ("%s", None),
        ("%s000", None),
        ("%d/%m/%Y", None),
        ("%d/%m/%Y", "%d/%m/%Y"),
        ("%b %d, %Y", "%b %d, %Y"),
    ],
)
def test_every_way_of_writing_gives_the_same_split(written: str, date_format: str | None, tmp_path: Path) -> None:
    moments = [dt.datetime.fromisoformat(f"{time}+00:00") for *_, time in ROWS]
    texts = [moment.strftime(written.replace("%s", str(int(moment.timestamp())))) for moment in moments]
    columns = {"user": [user for user, *_ in ROWS], "item": [item for _, item, _ in ROWS], "time": texts}
    pl.DataFrame(columns).write_csv(tmp_path / "a.csv")
    pl.DataFrame({**columns, "time": moments}).write_parquet(tmp_path / "b.parquet")
    options = TIMED.model_copy(update={"date_format": date_format})
    assert load_data(tmp_path / "a.csv", options).content_hash == load_data(tmp_path / "b.parquet", TIMED).content_hash


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.dat"])
def test_the_line_is_named_in_every_text_format(name: str, tmp_path: Path) -> None:
    rows = [("1", "2", "5", "2020-01-31"), ("1", "3", "5", "2020-01-32"), ("2", "3", "5", "2020-02-01")]
    keys = ("user", "item", "rating", "timestamp")
    text = {
        "a.csv": "\n".join([",".join(keys), *(",".join(row) for row in rows)]),
        "a.jsonl": "\n".join(str(dict(zip(keys, row, strict=True))).replace("'", '"') for row in rows),
        "a.dat": "\n".join("::".join(row) for row in rows),
    }[name]
    (tmp_path / name).write_text(text + "\n")
    line = 3 if name == "a.csv" else 2
    with pytest.raises(UserError, match=f"{name}, line {line} has '2020-01-32' where a time should be"):
        load_data(tmp_path / name, TIMED)


def test_times_that_nobody_needs_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,item,time\n1,2,soon\n1,3,\n")
    assert load_data(path).num_items == 2
    with pytest.raises(UserError, match=r"line 3 has no time \(column 'time'\)"):
        load_data(path, DataOptions(time_col="time"))


def test_a_frame_with_text_for_times() -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": ["01/12/2020", "02/12/2020"]})
    with pytest.raises(UserError, match="Frame 'frame' has the date '01/12/2020'"):
        load_data(frame, TIMED)
    assert load_data(frame, DataOptions(protocol="temporal", date_format="%d/%m/%Y")).num_items == 2


@pytest.mark.parametrize("name", ["purchased_at", "Ordered At", "watched-at", "order_date", "event_timestamp", "ts"])
def test_a_column_with_a_usual_name_of_a_time_is_one(name: str, tmp_path: Path) -> None:
    rows = "".join(f"u{n % 6},i{n % 5},2024-01-{1 + n:02d}\n" for n in range(30))
    (tmp_path / "data.csv").write_text(f"user,item,{name}\n{rows}")
    dataset = load_data(tmp_path / "data.csv", TIMED)  # refused where no column is a time
    assert dataset.train.num_pairs
