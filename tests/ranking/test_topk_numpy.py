# SPDX-License-Identifier: Apache-2.0
"""The k highest of many scores, against a sort of all of them."""

import numpy as np
import pytest

from legcf.ranking.topk_numpy import top_k


@pytest.mark.parametrize("count", [1, 90, 1023, 2048, 9001])
@pytest.mark.parametrize("k", [1, 20, 500])
@pytest.mark.parametrize("levels", [2, 50, 10**6])  # few levels: many equals, at the border too
@pytest.mark.parametrize("share_left_out", [0.0, 0.3, 1.0])
def test_best_is_the_beginning_of_a_sort(count: int, k: int, levels: int, share_left_out: float) -> None:
    rng = np.random.default_rng(count + k + levels)
    scores = (rng.integers(levels, size=count) / levels - 0.5).astype(np.float32)
    left_out = np.flatnonzero(rng.random(count) < share_left_out)
    kept = np.setdiff1d(np.arange(count), left_out)
    expected = kept[np.argsort(-scores[kept], kind="stable")][:k]
    items, values = top_k(scores.copy(), k, left_out)
    np.testing.assert_array_equal(items, expected)
    np.testing.assert_array_equal(values, scores[expected])


def test_the_highest_may_stand_side_by_side() -> None:
    scores = np.linspace(1, 0, 5000, dtype=np.float32)
    np.testing.assert_array_equal(top_k(scores.copy(), 20, np.arange(3))[0], np.arange(3, 23))
    np.testing.assert_array_equal(top_k(scores[::-1].copy(), 20, np.zeros(0, np.int32))[0], 4999 - np.arange(20))


def test_only_those_inside() -> None:
    inside = np.zeros(3000, dtype=np.bool_)
    inside[[5, 1700, 2999]] = True
    items, _ = top_k(np.arange(3000, dtype=np.float32), 20, np.array([1700]), inside)
    np.testing.assert_array_equal(items, [2999, 5])
