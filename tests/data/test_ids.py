# SPDX-License-Identifier: Apache-2.0
"""One map from ids to positions and back."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.reading.encode import IntegerIds


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True) | st.lists(st.integers(0, 2**64 - 1), unique=True))
def test_integers_round_trip(values: list[int]) -> None:
    ids = IdMap.of(np.array(values, dtype=np.uint64 if any(v >= 2**63 for v in values) else np.int64), "user")
    assert ids.external(np.arange(len(values))) == values
    assert [ids.find(value) for value in values] == list(range(len(values)))
    again = IdMap.from_arrays(ids.to_arrays(), "user")
    assert again.values.tolist() == values


@given(st.lists(st.text(), unique=True))
def test_text_round_trips(values: list[str]) -> None:
    ids = IdMap.of(values, "item")
    again = IdMap.from_arrays(ids.to_arrays(), "item")
    assert again.values.tolist() == values
    assert again.positions(values).tolist() == list(range(len(values)))


def test_a_shell_only_knows_text() -> None:
    assert IdMap.of([5, 42]).find("42") == 1
    assert IdMap.of(["5", "x"]).find(5) == 0
    assert IdMap.of([5, 42]).find("x") is None
    with pytest.raises(UserError, match="Unknown user id 'x': ids of this model look like 5, 42"):
        IdMap.of([5, 42], "user").position("x")


@pytest.mark.parametrize("spelling", ["1_0", "+10", " 10", "10 ", "010", "１０", "10.0", "1e1", "-0", "", "9" * 5000])
def test_an_id_is_what_was_written(spelling: str) -> None:
    ids = IdMap.of([0, 10], "user")
    assert ids.find(spelling) is None
    assert ids.find("10") == 1
    assert [ids.find(one) for one in (True, False, None, 10.0)] == [None] * 4  # type: ignore[arg-type]
    assert IdMap.of(["None", "True"]).find(None) is None  # type: ignore[arg-type]
    assert IdMap.of([-3]).find("-3") == 0


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**22])
def test_integers_beyond_64_bits_are_refused(number: int) -> None:
    with pytest.raises(UserError, match=f"The item id {number} does not fit"):
        IdMap.of([1, number], "item")
    with pytest.raises(UserError, match=f"The item id {number} does not fit"):
        IdMap.of([1, 2], "item").with_later([number])


def test_no_integer_type_holds_negative_ids_and_those_beyond_63_bits() -> None:
    assert IdMap.of([1, 2], "item").with_later([2**63]).values.dtype == np.uint64
    with pytest.raises(UserError, match="does not fit"):
        IdMap.of([-1, 2], "item").with_later([2**63])


def test_later_ids_of_the_other_kind_make_all_text() -> None:
    ids = IdMap.of([7, 1], "item").with_later(["x", 2])
    assert ids.values.tolist() == ["7", "1", "2", "x"]
    assert [ids.find(one) for one in (7, "7", "x")] == [0, 0, 3]


@pytest.mark.parametrize("ids", [["a", 1], [1, None], [1.5], [True], ["a", None]])
def test_ids_are_all_integers_or_all_text(ids: list[object]) -> None:
    with pytest.raises(UserError, match="must be all whole numbers or all text"):
        IdMap.of(ids, "user")  # type: ignore[arg-type]


def test_ids_of_another_map_are_found_at_once() -> None:
    assert IdMap.of([5, 42, 7]).find_all(IdMap.of(["7", "5", "07"])).tolist() == [2, 0, -1]


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 100)), max_size=4))
def test_gathered_integers_are_sorted_and_found(arrays: list[list[int]]) -> None:
    ids = IntegerIds("item")
    for array in arrays:
        ids.add(np.array(array, dtype=np.uint64))
    expected = sorted({value for array in arrays for value in array})
    assert ids.ids.values.tolist() == expected
    for array in arrays:
        encoded = ids.encode(np.array(array, dtype=np.uint64))
        assert [expected[position] for position in encoded.tolist()] == array


def test_ids_that_count_up_need_no_dictionary() -> None:
    ids = IdMap(np.arange(5, 1_000_005, dtype=np.uint32), "user")
    tracemalloc.start()
    found = [ids.find(one) for one in (5, "6", 1_000_004, np.int64(7), 4, 1_000_005, -1, 2**70, "05")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [0, 1, 999_999, 2, None, None, None, None, None]
    assert peak < 10e6


@pytest.mark.parametrize("values", [[0, 1, 2, 0], [3, 2, 1], [254, 255, 0, 1], [1, 3, 2, 4], [7], [2, 2]], ids=str)
def test_ids_that_nearly_count_up(values: list[int]) -> None:
    for kind in (np.uint8, np.int64, np.uint64):
        ids = IdMap(np.array(values, dtype=kind))
        expected = {value: position for position, value in enumerate(values)}
        assert [ids.find(value) for value in range(256)] == [expected.get(value) for value in range(256)]
