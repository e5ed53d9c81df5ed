# SPDX-License-Identifier: Apache-2.0
"""Sorting through files gives what sorting in memory gives."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from legcf.data.options import DataOptions
from legcf.data.preparing import blocks, pipeline
from legcf.data.preparing.blocks import Batch, sort_batches
from legcf.data.source import load_data
from tests.data.files import write_table


def batches(seed: int, timed: bool) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    for size in (500, 1, 0, 300):
        users = rng.integers(0, 40, size).astype(np.int32)
        items = rng.integers(0, 25, size).astype(np.int32)
        yield Batch(users, items, rng.integers(0, 9, size) if timed else None, users < 3)


@pytest.mark.parametrize("timed", [False, True])
def test_spilled_blocks_are_the_same_pairs_in_the_same_order(
    timed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, found = sort_batches(batches(1, timed), 40, 25, None)
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 50)
    spilled, found_again = sort_batches(batches(1, timed), 40, 25, tmp_path)
    assert found == found_again
    (expected,) = list(whole)
    for _ in range(2):
        parts = list(spilled)
        assert len(parts) > 3
        assert [part.first_user for part in parts] == sorted(part.first_user for part in parts)
        np.testing.assert_array_equal(np.concatenate([part.items for part in parts]), expected.items)
        np.testing.assert_array_equal(np.concatenate([part.degrees for part in parts]), expected.degrees)
        if timed:
            times = [part.times for part in parts if part.times is not None]
            assert expected.times is not None
            np.testing.assert_array_equal(np.concatenate(times), expected.times)


def test_rows_are_sorted_and_unique() -> None:
    store, found = sort_batches(batches(2, True), 40, 25, None)
    (block,) = list(store)
    keys = block.rows() * 25 + block.items
    assert np.all(np.diff(keys) > 0)
    assert found.merged == 801 - len(keys)


@pytest.mark.parametrize("protocol", ["ratio", "leave-last-out", "temporal"])
def test_a_dataset_does_not_depend_on_how_much_memory_there_was(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path, "ratings.csv")
    options = DataOptions(protocol=protocol, k_core=7)
    expected = load_data(path, options).content_hash
    monkeypatch.setattr(pipeline, "SPILL_PAIRS", 10)
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 20)
    assert load_data(path, options).content_hash == expected


def test_large_files_are_read_in_pieces(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from legcf.data.reading import compressed, lightgcn, tables

    path = write_table(tmp_path, "ratings.csv")
    expected = load_data(shared_data / "lastfm").content_hash, load_data(path).content_hash
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(lightgcn, "_KEEP_BYTES", 0)
    monkeypatch.setattr(tables, "_KEEP_BYTES", 0)
    monkeypatch.setattr(pipeline, "SPILL_PAIRS", 10)
    assert (load_data(shared_data / "lastfm").content_hash, load_data(path).content_hash) == expected
