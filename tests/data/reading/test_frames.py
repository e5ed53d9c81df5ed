# SPDX-License-Identifier: Apache-2.0
"""What people hold in memory: frames of several libraries and sparse matrices give the same dataset as a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from legcf import Dataset, Recommender
from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.source import load_data, load_training_data
from tests.data.files import write_table

TIMED = DataOptions(protocol="leave-last-out", min_rating=2.0, k_core=2)


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return pl.read_parquet(write_table(tmp_path_factory.mktemp("frames"), "ratings.parquet"))


def in_every_library(frame: pl.DataFrame) -> dict[str, Any]:
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    dated = pd.to_datetime(columns["timestamp"], unit="s", utc=True)
    table = frame.to_arrow()
    return {
        "polars": frame,
        "polars, lazy": frame.lazy(),
        "pandas": pd.DataFrame(columns),
        "pandas, nullable": pd.DataFrame(columns).convert_dtypes(),
        "pandas, short numbers": pd.DataFrame(columns).astype({"item_id": "int16", "rating": "float32"}),
        "pandas, with time zone": pd.DataFrame({**columns, "timestamp": dated.tz_convert("Asia/Tokyo")}),
        "pandas, Arrow inside": pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
        "pyarrow": table,
        "pyarrow, a batch": table.combine_chunks().to_batches()[0],
        "pyarrow, a reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
    }


@pytest.mark.parametrize("library", in_every_library(pl.DataFrame({"timestamp": [1], "item_id": [1], "rating": [1.0]})))
def test_frames_of_every_library(library: str, frame: pl.DataFrame) -> None:
    given_frame = in_every_library(frame)[library]
    assert load_data(given_frame, TIMED).content_hash == load_data(frame, TIMED).content_hash


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix, sp.dok_array])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_sparse_matrices(kind: Any, dtype: Any) -> None:
    dense = (np.arange(60).reshape(6, 10) % 3 == 0).astype(dtype)
    dense[2] = dense[:, 5] = 0
    dataset = load_data(kind(dense))
    assert dataset.users.values.tolist() == [0, 1, 3, 4, 5]
    assert dataset.items.values.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    users, items = np.nonzero(dense)
    assert dataset.content_hash == load_data(pl.DataFrame({"user": users, "item": items})).content_hash


def test_values_of_a_matrix_are_ratings_and_stored_zeros_are_nothing() -> None:
    matrix = sp.coo_array((np.array([5.0, 1.0, 0.0, 4.0]), (np.array([0, 0, 1, 2]), np.array([0, 1, 1, 3]))))
    assert load_data(matrix).users.values.tolist() == [0, 2]
    assert load_data(matrix, DataOptions(min_rating=4)).items.values.tolist() == [0, 3]


awkward = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["007", "nan", "None", " 7"])


@given(users=st.lists(awkward, min_size=2, max_size=5), integers=st.booleans())
def test_ids_come_back_from_every_library(users: list[str], integers: bool) -> None:
    ids: list[Any] = list(range(-(2**63), -(2**63) + len(users))) if integers else users
    plain = pl.DataFrame({"user": ids, "item": list(range(len(ids)))}, strict=False)
    for given_frame in (plain, pd.DataFrame({"user": ids, "item": range(len(ids))}), plain.to_arrow()):
        assert load_data(given_frame).users.values.tolist() == sorted(set(ids))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([(1, 2), (1, 3)], "type list cannot be read as interactions"),
        ([], "type list cannot be read"),
        ({"user": [1], "item": [2]}, "polars.DataFrame(columns)"),
        (np.eye(3), "scipy.sparse.csr_array(matrix)"),
        (7, "type int cannot be read"),
        (None, "type NoneType cannot be read"),
        (pd.Series([1, 2]), "type Series cannot be read"),
        (pl.DataFrame({"a": [1], "b": [2]}), "no column that looks like user ids"),
        (pd.DataFrame([[1, 2]], columns=["user", "user"]), "more than one column 'user'"),
        (pd.DataFrame({"user": [1.5, None], "item": [1, 2]}), "must be integers or text"),
        (sp.coo_array((3, 4)), "holds no interactions"),
        (sp.coo_array(np.array([[1j, 0]])), "must be numbers"),
        (sp.coo_array(np.array([[1.0, np.nan]])), "no number for a rating"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(data: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        Recommender().fit(data)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_training_data_takes_whatever_holds_interactions(frame: pl.DataFrame, tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.csv")
    dataset = load_data(path)
    assert isinstance(dataset, Dataset)
    assert load_training_data(dataset) is dataset
    for source in (path, str(path), [path], frame):
        assert load_training_data(source).content_hash == dataset.content_hash
    with pytest.raises(UserError, match="leave k_core out"):
        load_training_data(dataset, DataOptions(k_core=3))
