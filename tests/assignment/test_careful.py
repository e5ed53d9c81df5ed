"""Careful updates: weights refitted on a fixed support, and mixtures of old and new."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from legcf.assignment.assignment import Assignment
from legcf.assignment.careful import mixed, refitted


def drawn(seed: int, entities: int = 9, buckets: int = 6, t: int = 3) -> Assignment:
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.choice(buckets, t, replace=False) for _ in range(entities)]).astype(np.int32)
    return Assignment(indices, rng.random((entities, t), dtype=np.float32), buckets)


@given(st.integers(0, 1000))
def test_refitted_weights_are_the_non_negative_least_squares(seed: int) -> None:
    rng, assignment = np.random.default_rng(seed), drawn(seed)
    vectors = rng.standard_normal((9, 8)).astype(np.float32)
    dictionary = rng.standard_normal((6, 8)).astype(np.float32)
    fitted = refitted(vectors, dictionary, assignment, memory_cap_mb=0.001)
    assert np.array_equal(fitted.indices, assignment.indices)
    for row in range(9):
        wanted, error = nnls(dictionary[assignment.indices[row]].T.astype(float), vectors[row].astype(float))
        got = np.linalg.norm(vectors[row] - fitted.weights[row] @ dictionary[assignment.indices[row]])
        assert fitted.weights[row].min() >= 0
        assert got == pytest.approx(error, abs=1e-3), wanted


@given(st.integers(0, 1000), st.floats(0, 0.99))
def test_a_mixture_holds_the_largest_of_both(seed: int, share: float) -> None:
    old, new = drawn(seed), drawn(seed + 1)
    dense = share * old.to_csr().toarray() + (1 - share) * new.to_csr().toarray()
    kept = mixed(old, new, share).to_csr().toarray()
    for row, wanted in zip(kept, dense, strict=True):
        assert np.allclose(np.sort(row)[-3:], np.sort(wanted)[-3:], atol=1e-6)
        assert np.count_nonzero(row) <= 3


def test_all_of_the_new_is_the_new() -> None:
    old, new = drawn(1), drawn(2)
    assert np.allclose(mixed(old, new, 0.0).to_csr().toarray(), new.to_csr().toarray())
