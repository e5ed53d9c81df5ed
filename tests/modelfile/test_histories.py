# SPDX-License-Identifier: Apache-2.0
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.modelfile.histories import PackedHistories


@given(st.lists(st.sets(st.integers(0, 199), max_size=12), min_size=1, max_size=25))
def test_every_list_comes_back_alone_and_with_its_neighbours(lists: list[set[int]]) -> None:
    ordered = [sorted(one) for one in lists]
    indptr = np.cumsum([0, *map(len, ordered)])
    items = np.array([item for one in ordered for item in one], dtype=np.int32)
    packed = PackedHistories.of(Interactions(indptr, items, 200))
    again = PackedHistories.unpack(*packed.keys.packed, len(items), len(lists), 200)
    for history in (packed, again):
        np.testing.assert_array_equal(history.indptr, indptr)
        np.testing.assert_array_equal(history.all().items, items)
        for user, wanted in enumerate(ordered):
            assert history.of_user(user).tolist() == wanted
        some = history.some(len(lists) // 3, len(lists))
        assert [some.of(row).tolist() for row in range(some.num_users)] == ordered[len(lists) // 3 :]
