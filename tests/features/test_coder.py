# SPDX-License-Identifier: Apache-2.0
"""Tables of items as sparse rows."""

import json

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.features.coder import FeatureCoder, float_or_none
from legcf.features.fitting import coded, fitted_coder, shared

TABLE = pl.DataFrame(
    {
        "genres": ["Comedy|Drama", "Drama", "Horror|Comedy", None],
        "title": ["A long day out", "The night of the owls", "Owls at long last again", "No day like this"],
        "studio": ["one", "two", "one", "two"],
        "year": [1990, 2000, 2010, None],
    }
)


def test_kinds_are_guessed_and_can_be_given() -> None:
    coder = fitted_coder(TABLE)
    assert {column.name: column.kind for column in coder.columns} == {
        "genres": "tags",
        "title": "text",
        "studio": "category",
        "year": "number",
    }
    assert fitted_coder(TABLE, {"title": "category"}).columns[1].kind == "category"
    with pytest.raises(UserError, match="no column 'price'"):
        fitted_coder(TABLE, {"price": "number"})


def test_rows_are_alike_where_items_are() -> None:
    table = pl.DataFrame({"genres": ["a|b", "a|b", "a|c", "c|d"]})
    rows = coded(fitted_coder(table), table)
    likeness = (rows @ rows.T).toarray()
    assert np.allclose(np.diag(likeness), 1)
    assert likeness[0, 1] == pytest.approx(1)
    assert likeness[0, 2] == pytest.approx(0.5, abs=0.1)
    assert abs(likeness[0, 3]) < 0.1


def test_a_row_does_not_depend_on_others_and_missing_values_say_nothing() -> None:
    coder = fitted_coder(TABLE)
    whole = coded(coder, TABLE).toarray()
    assert np.allclose(coded(coder, TABLE[2:3]).toarray()[0], whole[2])
    nothing = TABLE[:1].with_columns(pl.lit(None).cast(pl.String).alias(name) for name in ("genres", "title", "studio"))
    assert not coded(coder, nothing.with_columns(year=pl.lit(None).cast(pl.Int64))).toarray().any()
    again = FeatureCoder.from_json(json.loads(json.dumps(coder.to_json())))
    assert np.array_equal(coded(again, TABLE).toarray(), whole)
    with pytest.raises(UserError, match="no column 'year'"):
        coded(coder, TABLE.drop("year"))


def test_a_server_codes_what_is_said_as_training_did() -> None:
    """One item as JSON has it."""
    coder = fitted_coder(TABLE)
    whole = coded(coder, TABLE).toarray()
    for number, said in enumerate(TABLE.to_dicts()):
        places, values = coder.row(said)
        assert np.array_equal(whole[number, places], values)
        assert np.count_nonzero(whole[number]) == len(places)
    assert np.array_equal(coder.row({"genres": ["Comedy", "Drama"]})[0], coder.row({"genres": " Drama |Comedy"})[0])
    assert not len(coder.row({"year": float("nan"), "genres": None})[0])
    with pytest.raises(UserError, match=r"'price': the model knows genres, title, studio, year"):
        coder.row({"price": 3})


def test_columns_have_places_of_their_own_within_the_room() -> None:
    assert shared([8, 5000, 100], 1024) == [8, 916, 100]
    assert shared([5000, 4000], 1024) == [512, 512]
    assert shared([], 1024) == []
    coder = fitted_coder(TABLE)
    assert coder.width == sum(coder.widths) == coded(coder, TABLE).shape[1]
    genres = coder.row({"genres": "Horror"})[0]
    assert genres.max() < coder.widths[0] <= coder.row({"title": "owls again"})[0].min()


@pytest.mark.parametrize(("value", "number"), [("2.5", 2.5), (10**400, None), ("1e400", None), ("x", None), ([], None)])
def test_what_is_no_finite_number_is_not_known(value: object, number: float | None) -> None:
    assert float_or_none(value) == number


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"kind": "colour"}, {"edges": [2, 1]}, {"mean": "x"}, {"deviation": 0}, {"more": 1}]
)
def test_a_coder_of_a_damaged_file_is_refused(wrong: dict[str, object]) -> None:
    columns = fitted_coder(TABLE).to_json()
    with pytest.raises((TypeError, ValueError)):
        FeatureCoder.from_json([*columns[:-1], {**columns[-1], **wrong}])


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), "9" * 400, 1e308 * 10, float("nan"), True, [], {"a": 1}], ids=repr
)
@pytest.mark.parametrize("name", ["genres", "title", "studio", "year"])
def test_odd_values_make_a_row_of_numbers(name: str, value: object) -> None:
    entries, values = fitted_coder(TABLE).row({name: value})
    assert len(entries) == len(values)
    assert np.isfinite(values).all()


@pytest.mark.parametrize(
    "numbers",
    [[1e308, -1e308], [1e308, 1e308], [1.7e308, 1.0, 2.0], [5e-324, 0.0], [0.0, 0.0], [-1.7e308, 1.7e308, 0.0]],
)
def test_numbers_of_any_size_have_a_mean(numbers: list[float]) -> None:
    table = pl.DataFrame({"x": numbers * 20})
    coder = fitted_coder(table)
    (column,) = coder.columns
    assert column.kind == "number"
    assert min(numbers) <= column.mean <= max(numbers)
    assert np.isfinite(coded(coder, table).data).all()


def test_usual_numbers_have_the_mean_and_deviation_of_numpy() -> None:
    years = np.random.default_rng(0).normal(1990, 12, 1000)
    (column,) = fitted_coder(pl.DataFrame({"year": years})).columns
    assert (column.mean, column.deviation) == pytest.approx((years.mean(), years.std()), rel=1e-15)


def test_more_columns_than_can_be_weighed_are_refused() -> None:
    table = pl.DataFrame({f"x{column}": [1, 2, 3] for column in range(101)})
    assert len(fitted_coder(table.drop("x0")).columns) == 100
    with pytest.raises(UserError, match="have 101 columns"):
        fitted_coder(table)
