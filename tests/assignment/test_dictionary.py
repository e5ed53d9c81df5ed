# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import numpy as np
import pytest

from legcf.assignment.assignment import relative_error
from legcf.assignment.dictionary import balance, find_balance, fit, learn
from legcf.core.errors import UserError


def planted(rows: int, c: int, t: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows that are sums of t of c directions: a codebook of c with t weights fits them exactly."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(c, d))
    picked = np.argsort(rng.random((rows, c)), axis=1)[:, :t]
    weights = rng.uniform(0.5, 1.5, (rows, t)) * rng.choice([-1, 1], (rows, t))
    return np.einsum("nt,ntd->nd", weights, directions[picked]).astype(np.float32)


def test_balance_keeps_scores_and_equals_the_moments() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(50, 6)).astype(np.float32) * 7, rng.normal(size=(30, 6)).astype(np.float32)
    for power in (0.5, 1.0):
        u, i, metric = balance(users, items, power)
        np.testing.assert_allclose((u * metric**2) @ i.T, users @ items.T, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(u.T @ u, i.T @ i, rtol=1e-3, atol=0.01 * float(np.abs(u.T @ u).max()))


def test_with_power_one_an_error_of_a_user_is_its_error_in_scores() -> None:
    rng = np.random.default_rng(1)
    users, items = rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=(60, 5)).astype(np.float32)
    u, _, _ = balance(users, items)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), np.linalg.norm(users @ items.T, axis=1), rtol=1e-4)


def test_directions_without_weight_are_left_out() -> None:
    rng = np.random.default_rng(2)
    users, items = rng.normal(size=(40, 8)).astype(np.float32), rng.normal(size=(60, 8)).astype(np.float32)
    items[:, 3:] = 0
    basis = find_balance(users, items, least=1e-6)
    assert len(basis.metric) == 3
    scores = (users @ basis.onto_users * basis.metric**2) @ (items @ basis.onto_items).T
    np.testing.assert_allclose(scores, users @ items.T, atol=1e-3)


def test_a_planted_codebook_is_found() -> None:
    vectors = planted(1500, c=24, t=2, d=16)
    codebook, assignment = learn(vectors, 24, 2, np.random.default_rng(0), rounds=20)
    assert relative_error(vectors, codebook, assignment) < 0.2
    np.testing.assert_allclose(np.linalg.norm(codebook, axis=1), 1, rtol=1e-5)
    assert codebook.dtype == np.float32


def test_rounds_help_and_the_seed_decides() -> None:
    vectors = planted(600, c=40, t=3, d=12)
    few, many = (learn(vectors, 30, 3, np.random.default_rng(3), rounds=rounds) for rounds in (1, 10))
    assert relative_error(vectors, *many) < relative_error(vectors, *few)
    again = learn(vectors, 30, 3, np.random.default_rng(3), rounds=10)
    np.testing.assert_array_equal(many[0], again[0])
    np.testing.assert_array_equal(many[1].indices, again[1].indices)


def test_nonnegative_codes() -> None:
    vectors = np.abs(planted(400, c=20, t=2, d=10))
    _, assignment = learn(vectors, 15, 3, np.random.default_rng(0), nonnegative=True)
    assert assignment.weights.min() >= 0


def test_fit_is_least_squares() -> None:
    vectors = planted(300, c=10, t=2, d=6)
    codebook, assignment = learn(vectors, 10, 2, np.random.default_rng(0), rounds=3)
    fitted = fit(vectors, codebook, assignment)
    expected = np.linalg.lstsq(assignment.to_csr().toarray(), vectors, rcond=None)[0]
    np.testing.assert_allclose(fitted, expected, rtol=0.05, atol=0.05)
    assert relative_error(vectors, fitted, assignment) <= relative_error(vectors, codebook, assignment) + 1e-6


@pytest.mark.parametrize(
    "vectors",
    [np.zeros((40, 4), np.float32), np.repeat(np.eye(2, 4, dtype=np.float32), 20, axis=0)],
    ids=["all zero", "two rows again and again"],
)
def test_tables_with_less_to_say_than_the_codebook(vectors: np.ndarray) -> None:
    codebook, assignment = learn(vectors, 10, 2, np.random.default_rng(0))
    assert np.isfinite(codebook).all()
    np.testing.assert_allclose(assignment.compose(codebook), vectors, atol=1e-5)


def test_sizes_that_cannot_be() -> None:
    vectors = planted(20, c=5, t=2, d=4)
    with pytest.raises(UserError, match="codebook of c = 21"):
        learn(vectors, 21, 2, np.random.default_rng(0))
    with pytest.raises(UserError, match="t = 6"):
        learn(vectors, 5, 6, np.random.default_rng(0))


def test_memory_stays_within_the_cap() -> None:
    vectors = np.random.default_rng(0).normal(size=(40_000, 32)).astype(np.float32)
    learn(vectors[:500], 50, 2, np.random.default_rng(0), rounds=1)  # compiled before it is measured
    tracemalloc.start()
    learn(vectors, 50, 2, np.random.default_rng(0), rounds=1, memory_cap_mb=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    codes = 40_000 * 2 * 8
    assert peak < 2 * 2**20 + 5 * codes
