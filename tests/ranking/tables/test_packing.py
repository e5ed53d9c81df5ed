# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.ranking.tables.packing import (
    SortedKeys,
    bits_for,
    dequantise_rows,
    encode_sorted,
    pack_bits,
    quantise_rows,
    smallest_integers,
    unpack_bits,
)


@given(st.integers(1, 40), st.lists(st.integers(0, 2**40 - 1), max_size=60))
def test_bits_come_back(bits: int, values: list[int]) -> None:
    array = np.array([value % (1 << bits) for value in values], dtype=np.int64)
    packed = pack_bits(array, bits)
    assert len(packed) == (len(values) * bits + 7) // 8
    np.testing.assert_array_equal(unpack_bits(packed, bits, len(values)), array)


def test_bits_across_chunks() -> None:
    values = np.random.default_rng(0).integers(0, 500, 150_001)
    np.testing.assert_array_equal(unpack_bits(pack_bits(values, 9), 9, len(values)), values)


def test_bits_needed() -> None:
    assert [bits_for(count) for count in (1, 2, 3, 500, 512, 513)] == [1, 1, 2, 9, 9, 10]


def test_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        unpack_bits(np.zeros(3, dtype=np.uint8), 9, 4)


@given(st.sets(st.integers(0, 5000), max_size=80), st.integers(1, 3))
def test_sorted_keys_come_back(keys: set[int], stretch: int) -> None:
    ordered = np.array(sorted(keys), dtype=np.int64)
    universe = 5001 * stretch
    low, high = encode_sorted(ordered, universe)
    again = np.concatenate([np.zeros(0, np.int64), *SortedKeys(low, high, len(ordered), universe).chunks()])
    np.testing.assert_array_equal(again, ordered)


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 50), st.integers(1, 10_000))
def test_foreign_sorted_keys_never_crash(low: bytes, high: bytes, count: int, universe: int) -> None:
    try:
        chunks = SortedKeys(np.frombuffer(low, np.uint8), np.frombuffer(high, np.uint8), count, universe).chunks()
        keys = np.concatenate([np.zeros(0, np.int64), *chunks])
    except ValueError:
        return
    assert len(keys) == count
    assert np.all(keys < universe)


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1, max_size=20))
def test_rows_within_half_a_step(rows: list[list[float]]) -> None:
    exact = np.array(rows, dtype=np.float32)
    again = dequantise_rows(*quantise_rows(exact))
    # a row's step is 1/127 of its largest entry, 3 % more for the scale, and never below 1/2000 of the largest row's
    largest = np.abs(exact).max(axis=1, keepdims=True)
    step = np.maximum(1.031 * largest / 127, largest.max() / 127 / 1800)
    assert np.all(np.abs(again - exact) <= 0.501 * step + 1e-30)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10))
def test_smallest_integers(values: list[int]) -> None:
    assert smallest_integers(np.array(values, dtype=np.int64)).tolist() == values


def test_sorted_keys_across_chunks() -> None:
    keys = np.unique(np.random.default_rng(0).integers(0, 10**8, 200_000))
    low, high = encode_sorted(keys, 10**8)
    np.testing.assert_array_equal(np.concatenate(list(SortedKeys(low, high, len(keys), 10**8).chunks())), keys)
    assert (len(low) + len(high)) * 8 / len(keys) < 2.6 + np.log2(10**8 / len(keys))


@given(st.integers(0, 500))
def test_what_was_rounded_once_is_rounded_to_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((40, 6)) * rng.lognormal(0, 2, (40, 1))).astype(np.float32)
    once = dequantise_rows(*quantise_rows(rows))
    np.testing.assert_allclose(dequantise_rows(*quantise_rows(once)), once, rtol=1e-5, atol=1e-7)
