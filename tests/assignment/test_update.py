# SPDX-License-Identifier: Apache-2.0
"""One linear map for both sides of H_full ≈ S · H_meta; weights refitted on a fixed support; two updates mixed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from legcf.assignment.assignment import Assignment
from legcf.assignment.solvers import SOLVERS
from legcf.assignment.update import aggregated, mixed, refitted

HOW = ("mean", "concat", "first", "last")


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


LOSES_SIZE = {"pinv"}
"""Solvers whose weights shrink by about d/c where there are more meta-embeddings than columns."""


def exactly_composed(seed: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S*, H_full = S* · H_meta (and noise) and H_meta for c = 120 and d = 40, weights summing to 1."""
    rng = np.random.default_rng(seed)
    meta = rng.standard_normal((120, 40)).astype(np.float32)
    columns = np.argsort(rng.random((80, 120)), axis=1)[:, :2]
    share = rng.uniform(0.35, 0.65, (80, 1))
    wanted = np.zeros((80, 120), np.float32)
    np.put_along_axis(wanted, columns, np.concatenate([share, 1 - share], axis=1), axis=1)
    return wanted, (wanted @ meta + noise * rng.standard_normal((80, 40))).astype(np.float32), meta


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_more_meta_embeddings_than_columns(solver: str) -> None:
    """An update that has nothing to correct changes nothing, but for those that take what a projection leaves."""
    for seed in range(3):
        wanted, full, meta = exactly_composed(seed)
        found = SOLVERS[solver](full, meta, 2, 64.0).to_csr().toarray()
        assert ((found > 0) == (wanted > 0)).mean() > 0.999, "all of them choose well"
        sums = found.sum(axis=1)
        if solver in LOSES_SIZE:
            assert sums.mean() == pytest.approx(40 / 120, rel=0.2)
        else:
            same = ((found > 0) == (wanted > 0)).all(axis=1)
            assert np.allclose(found[same], wanted[same], atol=1e-3)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_size_after_an_update(solver: str) -> None:
    """Scores are products of vectors: where these shrink to a share, scores shrink to its square."""
    _, full, meta = exactly_composed(5, noise=0.1)
    composed = SOLVERS[solver](full, meta, 2, 64.0).to_csr() @ meta
    kept = np.linalg.norm(composed) / np.linalg.norm(full)
    assert kept < 0.5 if solver in LOSES_SIZE else 0.9 < kept < 1.1


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
