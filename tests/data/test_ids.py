# SPDX-License-Identifier: Apache-2.0
"""One map from ids to positions and back."""

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
