# SPDX-License-Identifier: Apache-2.0
"""Ids of any kind go through prepare, train, save, load and recommend, and come back as they went in."""

import shutil
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf import Recommender
from legcf.data.source import prepare_source

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
small_or_huge = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
awkward = st.sampled_from(
    ["007", "7", "+7", " 7", "7.0", "1e3", "99999999999999999999999", "nan", "None", "ﬀ", "İ", "\u202e"]
)
ids = st.one_of(
    st.lists(small_or_huge, min_size=6, max_size=8, unique=True),
    st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=8, unique=True),
    st.lists(texts | awkward, min_size=6, max_size=8, unique=True),
)


@settings(max_examples=5)
@given(users=ids, items=ids)
def test_ids_come_back_from_a_trained_model(
    users: list[int] | list[str], items: list[int] | list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    pairs = [(user, item) for row, user in enumerate(users) for column, item in enumerate(items) if (row + column) % 3]
    columns = {"user": [user for user, _ in pairs], "item": [item for _, item in pairs]}
    kinds = {name: _kind(values) for name, values in columns.items()}
    pl.DataFrame(columns, schema=kinds).write_parquet(folder / "pairs.parquet")
    prepare_source(folder / "pairs.parquet", folder / "prepared", quiet=True)
    model = Recommender(method_options={"c": 3, "t": 2, "dim": 4}, training={"epochs": 1}).fit(folder / "prepared")
    model.save(folder / "model")
    again = Recommender.load(folder / "model")
    everyone = again.recommend(k=3, exclude_seen=False)
    assert set(everyone["user"].to_list()) == set(users)
    assert set(everyone["item"].to_list()) <= set(items)
    one = again.recommend(users[0], k=2, exclude_seen=False)
    assert set(one["user"].to_list()) == {users[0]}
    shutil.rmtree(folder)


def _kind(values: Sequence[object]) -> type[pl.DataType]:
    if isinstance(values[0], str):
        return pl.String
    return pl.UInt64 if max(value for value in values if isinstance(value, int)) > 2**63 - 1 else pl.Int64
