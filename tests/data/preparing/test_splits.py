# SPDX-License-Identifier: Apache-2.0
"""The promises of each protocol, on any data."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.data.preparing.blocks import Batch
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import build_in_memory
from legcf.data.preparing.splits import PARTS, PROTOCOLS
from legcf.data.source import load_data

# user, item, time, in test.txt
PairRows = list[tuple[int, int, int, bool]]
rows_strategy = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 15), st.integers(0, 20), st.booleans()),
    min_size=1,
    max_size=120,
    unique_by=lambda row: row[:2],
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSource(PairSource):
    batch: Batch

    def batches(self) -> Iterator[Batch]:
        return iter([self.batch])


def source(rows: PairRows) -> PairSource:
    users, items, times, testing = (np.array(column) for column in zip(*rows, strict=True))
    batch = Batch(users.astype(np.int32), items.astype(np.int32), times, testing.astype(np.bool_))
    return RowSource(
        name="rows",
        where="rows",
        users=IdMap.consecutive(9, "user"),
        items=IdMap.consecutive(16, "item"),
        num_rows=len(rows),
        has_test=True,
        times="whole numbers",
        batch=batch,
    )


def split(rows: PairRows, protocol: str, **options: object) -> Dataset:
    return build_in_memory(source(rows), DataOptions(protocol=protocol, cold="keep", **options))


def pairs(dataset: Dataset, part: str) -> set[tuple[int, int]]:
    chosen = getattr(dataset, part)
    return set(zip(chosen.users().tolist(), chosen.items.tolist(), strict=True))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(rows=rows_strategy, seed=st.integers(0, 3))
def test_every_pair_is_in_exactly_one_part(protocol: str, rows: PairRows, seed: int) -> None:
    dataset = split(rows, protocol, split_seed=seed)
    parts = [pairs(dataset, part) for part in PARTS]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(rows)
    assert set.union(*parts) == {row[:2] for row in rows}
    again = split(rows[::-1], protocol, split_seed=seed)
    assert again.content_hash == dataset.content_hash


@given(rows=rows_strategy)
def test_legcf_takes_a_third_of_test(rows: PairRows) -> None:
    dataset = split(rows, "legcf")
    assert pairs(dataset, "train") == {row[:2] for row in rows if not row[3]}
    for user in range(9):
        given_test = sum(row[0] == user and row[3] for row in rows)
        assert len(dataset.validation.of(user)) == -(-given_test // 3)


@given(rows=rows_strategy)
def test_ngcf_takes_a_tenth_of_train(rows: PairRows) -> None:
    dataset = split(rows, "ngcf")
    assert pairs(dataset, "test") == {row[:2] for row in rows if row[3]}
    for user in range(9):
        given_train = sum(row[0] == user and not row[3] for row in rows)
        assert len(dataset.validation.of(user)) == min(int(given_train * 0.1 + 0.5), max(given_train - 1, 0))


@given(rows=rows_strategy)
def test_ratio_leaves_every_user_something_to_train_on(rows: PairRows) -> None:
    dataset = split(rows, "ratio", validation_ratio=0.4, test_ratio=0.5)
    degrees = dataset.train.user_degrees + dataset.validation.user_degrees + dataset.test.user_degrees
    assert np.all((dataset.train.user_degrees > 0) == (degrees > 0))
    assert np.all(dataset.test.user_degrees <= np.floor(degrees * 0.5 + 0.5))


@given(rows=rows_strategy)
def test_leave_last_out_leaves_the_last_out(rows: PairRows) -> None:
    dataset = split(rows, "leave-last-out")
    time = {row[:2]: row[2] for row in rows}
    for user in range(9):
        train = [time[user, int(item)] for item in dataset.train.of(user)]
        validation = [time[user, int(item)] for item in dataset.validation.of(user)]
        test = [time[user, int(item)] for item in dataset.test.of(user)]
        count = len(train) + len(validation) + len(test)
        assert (len(validation), len(test)) == (int(count >= 3), int(count >= 2))
        assert sorted(train) + validation + test == sorted(train + validation + test)


@given(rows=rows_strategy)
def test_temporal_never_trains_on_the_future(rows: PairRows) -> None:
    dataset = split(rows, "temporal")
    time = {row[:2]: row[2] for row in rows}
    ends = [sorted(time[pair] for pair in pairs(dataset, part)) for part in PARTS]
    known = [times for times in ends if times]
    assert all(before[-1] < after[0] for before, after in pairwise(known))
    assert len(ends[2]) <= int(len(rows) * 0.2 + 0.5)


def test_repeated_pairs_keep_their_earliest_time() -> None:
    frame = pl.DataFrame({"user": [1, 1, 1, 1], "item": [1, 2, 3, 1], "time": [5, 6, 7, 9]})
    dataset = load_data(frame, DataOptions(protocol="leave-last-out"))
    assert dataset.items.external(dataset.test.items) == [3]
    assert dataset.items.external(dataset.validation.items) == [2]


@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-01", "2020-01-02", "2021-01-01"],
        ["2020-01-01T00:00:00", "2020-01-01T00:00:01", "2020-01-01T00:01:00"],
        ["1.5", "1.75", "2e3"],
        [1700000000000000001, 1700000000000000002, 1700000000000000003],
    ],
)
def test_times_of_many_kinds(times: list[str] | list[int]) -> None:
    frame = pl.DataFrame({"user": [1, 1, 1], "item": [1, 2, 3], "time": times})
    dataset = load_data(frame, DataOptions(protocol="leave-last-out"))
    assert dataset.items.external(dataset.test.items) == [3]


def test_the_split_does_not_follow_anything_but_its_seed() -> None:
    rows = [(user, item, 0, item % 2 == 0) for user in range(9) for item in range(16)]
    hashes = {split(rows, "legcf", split_seed=seed).content_hash for seed in range(4)}
    assert len(hashes) == 4
