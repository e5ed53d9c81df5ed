# SPDX-License-Identifier: Apache-2.0
"""Rows that lack a value are refused or left out; kinds of events and low ratings say what a row means."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from legcf import Recommender
from legcf.core.config import validated
from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.source import load_data, prepare_source
from legcf.data.summary import what_was_kept
from tests.cli.typed import legcf, refused

EVENTS = """user,item,type,stars
a,x,view,5
a,x,buy,5
a,y,view,1
a,y,hide,
b,x,view,2
b,y,cart,4
c,z,hide,1
c,x,hide,3
"""
WEIGHTS = "view=1,cart=3,buy=10,hide=-1"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text(EVENTS)
    return tmp_path / "e.csv"


def _weighed(data: object, **options: object) -> dict[tuple[str, str], float]:
    dataset = load_data(data, validated(DataOptions, options, "data"))
    known = dataset.known
    assert known.weights is not None
    users, items = dataset.users.external(known.users()), dataset.items.external(known.items)
    return dict(zip(zip(users, items, strict=True), known.weights.tolist(), strict=True))


def _disliked(data: object, **options: object) -> set[tuple[str, str]]:
    dataset = load_data(data, validated(DataOptions, options, "data"))
    pairs = dataset.dislikes
    assert pairs is not None
    assert not np.isin(pairs.keys(), dataset.known.keys()).any()
    return set(zip(dataset.users.external(pairs.users()), dataset.items.external(pairs.items), strict=True))


def test_kinds_of_events_weigh_and_a_dislike_wins(events: Path) -> None:
    likes = {("a", "x"): 11.0, ("b", "x"): 1.0, ("b", "y"): 3.0}
    for weights in (WEIGHTS, {"view": 1, "cart": 3, "buy": 10, "hide": -1}):
        asked = {"event_col": "type", "event_weights": weights}
        assert _weighed(events, **asked) == likes
        # nobody has z, so it can be recommended to nobody; c has nothing but dislikes and is known for them
        assert _disliked(events, **asked) == {("a", "y"), ("c", "x")}
        assert _weighed(pl.read_csv(events), **asked) == likes
    assert _weighed(events, event_col="type", event_weights="buy=2,*=0.5") == {
        ("a", "x"): 2.5, ("a", "y"): 1.0, ("b", "x"): 0.5, ("b", "y"): 0.5, ("c", "x"): 0.5, ("c", "z"): 0.5,
    }  # fmt: skip
    assert _weighed(events, event_col="type", event_weights="buy=2,cart=1,*=0") == {("a", "x"): 2, ("b", "y"): 1}


def test_low_ratings_are_dislikes(events: Path) -> None:
    rated = pl.read_csv(events).filter(pl.col("stars").is_not_null())
    assert _disliked(rated, dislike_below=3) == {("a", "y"), ("b", "x")}
    dataset = load_data(rated, DataOptions(dislike_below=2, min_rating=4))
    assert dataset.known.num_pairs == 2
    assert "7 rows → 3 users, 2 items, 2 pairs; 2 rows rated below 4.0 left out; 2 rows are dislikes" in what_was_kept(
        dataset
    )
    assert load_data(rated).dislikes is None


def test_what_is_not_possible_is_said(events: Path, tmp_path: Path) -> None:
    for options, said in (
        ({"event_col": "type", "event_weights": "view=1,buy=2"}, "'buy', 'cart', 'hide', 'view', and `event_weights`"),
        ({"event_col": "kind", "event_weights": WEIGHTS}, "no column 'kind'"),
        ({"event_col": "type"}, "go together"),
        ({"event_col": "type", "event_weights": "view"}, "view=1,buy=10"),
        ({"event_col": "type", "event_weights": "view=1,view=2"}, "each kind of event once"),
        ({"event_col": "type", "event_weights": "hide=-1"}, "above 0"),
        ({"dislike_below": 4, "min_rating": 3}, "must not be above min_rating"),
        ({"dislike_below": 2}, "line 5 has None where a rating"),
        ({"dislike_below": 2, "missing": "drop", "rating_col": "rating"}, "no column 'rating'"),
    ):
        with pytest.raises(UserError, match=said):
            Recommender().fit(events, **options)
    with pytest.raises(UserError, match="no weights, dislikes and repeats"):
        prepare_source(events, tmp_path / "out", DataOptions(dislike_below=2, missing="drop"), quiet=True)


def test_missing_values_as_typed(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("user,item,rating\n" + "".join(f"u{n % 9},{n % 7 or ''},\n" for n in range(70)))
    said = refused("data", "info", tmp_path / "m.csv")
    assert "m.csv, line 2 has no item id (column 'item'); 10 rows lack a value" in said
    assert "`--missing drop`" in said
    dropped = legcf("data", "info", tmp_path / "m.csv", "--missing", "drop")
    assert "70 rows → 9 users, 6 items, 54 pairs; 10 rows without a value left out" in dropped.out


def test_missing_times_and_kinds(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("user,item,time,type\n1,2,5,view\n1,3,,view\n2,3,7,\n2,2,9,view\n")
    for options, said in (
        ({"time_col": "time"}, "line 3 has no time .*; 1 row lacks a value.*missing='drop'"),
        ({"event_col": "type", "event_weights": "view=1"}, "line 4 has no kind of event .*; 1 row lacks a value"),
    ):
        with pytest.raises(UserError, match=said):
            load_data(tmp_path / "m.csv", validated(DataOptions, options, "data"))
        left = load_data(tmp_path / "m.csv", validated(DataOptions, {**options, "missing": "drop"}, "data"))
        assert left.known.num_pairs == 3


def test_nan_among_the_ids_of_pandas() -> None:
    for users in ([1, 2, None, 3], ["1", "2", None, "3"]):
        frame = pd.DataFrame({"user": users, "item": [1, 2, 1, 2]})
        with pytest.raises(UserError, match=r"no user id in 1 rows \(null or NaN\)") as caught:
            Recommender().fit(frame)
        assert "--" not in str(caught.value)
        dropped = load_data(frame, DataOptions(missing="drop"))
        assert dropped.users.values.tolist() == [type(users[0])(one) for one in (1, 2, 3)]


def test_errors_from_python_name_its_arguments() -> None:
    with pytest.raises(UserError, match="`user_col`") as caught:
        Recommender().fit(pd.DataFrame({"person": [1], "item": [1]}))
    assert "--" not in str(caught.value)
