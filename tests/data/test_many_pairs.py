# SPDX-License-Identifier: Apache-2.0
"""More than 2³¹ pairs: by shape alone, for arrays that repeat one number take no memory."""

import numpy as np
import pytest

from legcf.core import distributed
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import index_type, one_more_each

PAIRS = 3 * 2**31


@pytest.fixture(scope="module")
def many() -> Interactions:
    indptr = np.array([0, 2**31, 2**31 + 5, PAIRS], dtype=np.int64)
    return Interactions(indptr, np.broadcast_to(np.int32(7), PAIRS), num_items=8)


def test_users_are_found(many: Interactions) -> None:
    assert many.num_pairs == PAIRS
    assert many.user_degrees.tolist() == [2**31, 5, 2**32 - 5]
    assert len(many.of(2)) == 2**32 - 5
    assert many.of_users(np.array([1, 1])).items.tolist() == [7] * 10


def test_row_pointers_are_wide_enough(many: Interactions) -> None:
    assert index_type(2**31 - 1) is np.int32
    assert index_type(PAIRS) is np.int64
    below = one_more_each(many.indptr, 2)
    assert below.tolist()[-2:] == [PAIRS + 1, PAIRS + 2]
    assert below.dtype == np.int64


def test_work_is_cut_by_pairs(many: Interactions) -> None:
    assert distributed.row_partition(many.indptr).tolist() == [0, 3]
