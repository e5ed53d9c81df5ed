# SPDX-License-Identifier: Apache-2.0
"""Singular vectors are those of the dense matrix, exact for few users and near to it for many."""

import numpy as np
import pytest

from legcf.data.interactions import Interactions
from legcf.factorisation.spectral import singular_vectors
from legcf.graph.adjacency import degree_normalised


def drawn(users: int, items: int) -> Interactions:
    """Draw pairs in which no two singular values are alike."""
    rng = np.random.default_rng(0)
    chances = np.outer(rng.random(users), rng.random(items) ** 2)
    return Interactions.from_pairs(*np.nonzero(rng.random((users, items)) < chances), users, items)


@pytest.mark.parametrize(("rounds", "tolerance"), [(None, 1e-4), (40, 1e-2)])
def test_they_are_those_of_the_dense_matrix(rounds: int | None, tolerance: float) -> None:
    train = drawn(90, 70)
    vectors = singular_vectors(train, 3, np.random.default_rng(1), rounds)
    exact = np.linalg.svd(degree_normalised(train).toarray().astype(np.float64))[2][:3].T
    np.testing.assert_allclose(np.abs(np.sum(vectors * exact, axis=0)), 1.0, atol=tolerance)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=tolerance)


def test_there_are_no_more_than_the_data_has() -> None:
    train = drawn(30, 20)
    vectors = singular_vectors(train, 50, np.random.default_rng(1))
    assert vectors.shape == (20, 20)
    assert np.isfinite(vectors).all()
