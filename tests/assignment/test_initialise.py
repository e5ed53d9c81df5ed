# SPDX-License-Identifier: Apache-2.0
"""Rules I–III of the paper: an anchor of weight w*, t − 1 others that share the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.assignment.initialise import from_anchors, random_anchors


@given(st.integers(1, 12), st.floats(0, 1), st.booleans(), st.integers(0, 1000), st.data())
def test_rules(num_buckets: int, weight: float, with_replacement: bool, seed: int, data: st.DataObject) -> None:
    t = data.draw(st.integers(1, num_buckets))
    rng = np.random.default_rng(seed)
    anchors = random_anchors(30, num_buckets, rng)
    found = from_anchors(anchors, num_buckets, t, weight, rng, with_replacement)
    assert np.array_equal(found.indices[:, 0], anchors)
    assert np.allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(found.to_csr().sum(axis=1), 1, atol=1e-5)
    assert (found.weights >= 0).all()
    assert ((found.indices >= 0) & (found.indices < num_buckets)).all()
    if t > 1:
        assert np.allclose(found.weights[:, 0], weight)
        assert np.allclose(found.weights[:, 1:], (1 - weight) / (t - 1))
        assert (found.indices[:, 1:] != anchors[:, None]).all()
    if not with_replacement:
        assert all(len(np.unique(row)) == t for row in found.indices)


def test_one_place_has_weight_one() -> None:
    found = from_anchors(np.array([3, 1]), 5, 1, 0.5, np.random.default_rng(0))
    assert np.array_equal(found.weights, [[1], [1]])


def test_others_are_uniform() -> None:
    found = from_anchors(np.zeros(8000, dtype=np.int64), 5, 3, 0.5, np.random.default_rng(0), with_replacement=False)
    shares = np.bincount(found.indices[:, 1:].ravel(), minlength=5) / 16_000
    assert shares[0] == 0
    assert np.allclose(shares[1:], 0.25, atol=0.02)


@pytest.mark.parametrize("t", [2, 24, 200])
def test_distinct_others_of_any_number_do_not_hang(t: int) -> None:
    found = from_anchors(np.arange(50), 200, t, 0.5, np.random.default_rng(0), with_replacement=False)
    assert all(len(np.unique(row)) == t for row in found.indices)


def test_the_generator_decides() -> None:
    draws = [from_anchors(np.arange(50), 60, 3, 0.5, np.random.default_rng(seed)).indices for seed in (1, 1, 2)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
