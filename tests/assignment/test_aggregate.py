"""One linear map for both sides of H_full ≈ S · H_meta."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.assignment.aggregate import aggregated
from legcf.assignment.solvers import SOLVERS

HOW = ("mean", "concat", "first", "last")


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("how", HOW)
@given(blocks=st.integers(1, 4), buckets=st.integers(2, 6), seed=st.integers(0, 1000))
def test_an_exact_assignment_is_found_again(solver: str, how: str, blocks: int, buckets: int, seed: int) -> None:
    """H_full = S* · H_meta and H_meta G of full row rank: the update gives S* back."""
    rng = np.random.default_rng(seed)
    width, t = 2 * buckets, min(2, buckets)
    meta = np.linalg.qr(rng.standard_normal((width, buckets)))[0].T  # well away from losing rank in any block
    meta = np.concatenate([meta * rng.uniform(0.5, 2, (1, width)) for _ in range(blocks)], axis=1).astype(np.float32)
    wanted = np.zeros((30, buckets), np.float32)
    columns = np.argsort(rng.random((30, buckets)), axis=1)[:, :t]
    np.put_along_axis(wanted, columns, rng.uniform(0.2, 1, (30, t)), axis=1)
    full, widths = wanted @ meta, [width] * blocks
    found = SOLVERS[solver](aggregated(full, widths, how), aggregated(meta, widths, how), t, 64.0)
    assert np.allclose(found.to_csr().toarray(), wanted, atol=1e-3)


@pytest.mark.parametrize("how", HOW)
@given(seed=st.integers(0, 1000))
def test_it_is_linear(how: str, seed: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, 5, 12)).astype(np.float32)
    both = aggregated(2 * a - 3 * b, [4, 4, 4], how)
    assert np.allclose(both, 2 * aggregated(a, [4, 4, 4], how) - 3 * aggregated(b, [4, 4, 4], how), atol=1e-5)


def test_what_each_takes() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(2, 6)
    assert aggregated(vectors, [2, 2, 2], "mean").tolist() == [[2, 3], [8, 9]]
    assert aggregated(vectors, [1, 5], "first").tolist() == [[0], [6]]
    assert aggregated(vectors, [4, 2], "last").tolist() == [[4, 5], [10, 11]]
    assert np.array_equal(aggregated(vectors, [4, 2], "concat"), vectors)
    assert aggregated(vectors, [6], "mean") is vectors
