# SPDX-License-Identifier: Apache-2.0
"""The contract of every solver of the assignment update, and what each adds."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from legcf.assignment.assignment import Assignment, relative_error
from legcf.assignment.matching_pursuit import encode
from legcf.assignment.solvers import SOLVERS
from legcf.testing.solvers import SolverContract, dense, problem


def row_errors(vectors: np.ndarray, dictionary: np.ndarray, assignment: Assignment) -> np.ndarray:
    return np.linalg.norm(vectors - dense(assignment) @ dictionary, axis=1)


class TestPinv(SolverContract):
    name = "pinv"

    @given(st.integers(0, 1000), st.integers(1, 4))
    def test_against_the_dense_formula(self, seed: int, t: int) -> None:
        vectors, dictionary = problem(9, 6, 4, seed)
        full = vectors.astype(np.float64) @ np.linalg.pinv(dictionary.astype(np.float64))
        wanted = np.zeros_like(full)
        for row, values in enumerate(full):
            for column in np.argsort(-values)[:t]:
                wanted[row, column] = max(values[column], 0)
        assert np.allclose(dense(self.solve(vectors, dictionary, t)), wanted, atol=1e-4)

    def test_reproduces_the_rows_before_cutting(self) -> None:
        """c > d and rank d: the minimum-norm solution is exact, so nothing is lost until entries are cut."""
        rng = np.random.default_rng(0)
        dictionary = rng.standard_normal((12, 5)).astype(np.float32)
        vectors = rng.standard_normal((30, 5)).astype(np.float32)
        whole = vectors @ np.linalg.pinv(dictionary)
        assert np.allclose(whole @ dictionary, vectors, rtol=1e-4, atol=1e-4)
        kept = self.solve(vectors, dictionary, t=12)
        assert np.allclose(dense(kept), np.maximum(whole, 0), atol=1e-4)


class TestPinvRefit(SolverContract):
    name = "pinv-refit"

    def test_chooses_what_the_closed_form_chooses(self) -> None:
        vectors, dictionary = problem(50, 20, 8, seed=7)
        chosen = SOLVERS["pinv"](vectors, dictionary, 3, 256.0)
        assert np.array_equal(self.solve(vectors, dictionary, 3).indices, chosen.indices)

    @pytest.mark.parametrize("t", [1, 2, 4])
    def test_weights_are_the_best_for_the_choice(self, t: int) -> None:
        vectors, dictionary = problem(50, 20, 8, seed=t)
        found = self.solve(vectors, dictionary, t)
        for row, indices in enumerate(found.indices):
            best = nnls(dictionary[indices].T.astype(float), vectors[row].astype(float))[1]
            assert row_errors(vectors, dictionary, found)[row] == pytest.approx(best, abs=1e-3)

    def test_near_copies_share_a_weight(self) -> None:
        """Coordinate descent alone would still be far off after its sweeps."""
        rng = np.random.default_rng(9)
        first = rng.standard_normal(16)
        dictionary = np.stack([first, first + 0.03 * rng.standard_normal(16)]).astype(np.float32)
        vectors = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32) @ dictionary
        assert np.allclose(dense(self.solve(vectors, dictionary, 2)), [[0.9, 0.1], [0.2, 0.8]], atol=0.02)


class TestMatchingPursuit(SolverContract):
    name = "matching-pursuit"

    @given(st.integers(0, 1000))
    def test_one_atom_is_the_best_of_all(self, seed: int) -> None:
        vectors, dictionary = problem(9, 6, 5, seed)
        every = [best_with(vectors, dictionary, [atom]) for atom in range(6)]
        assert np.allclose(
            row_errors(vectors, dictionary, self.solve(vectors, dictionary, 1)), np.min(every, axis=0), atol=1e-3
        )

    @pytest.mark.parametrize("t", [1, 2, 3, 5])
    def test_against_a_plain_pursuit(self, t: int) -> None:
        """Signed weights: in all no worse than the textbook's greedy choice, and never below the best support."""
        vectors, dictionary = problem(60, 9, 6, seed=t)
        indices, weights = encode(vectors, dictionary, t)
        own = row_errors(vectors, dictionary, Assignment(indices, weights, 9))
        textbook = np.linalg.norm(vectors - plain_pursuit(vectors, dictionary, t) @ dictionary, axis=1)
        best = np.min(
            [best_with(vectors, dictionary, support, signed=True) for support in combinations(range(9), t)], axis=0
        )
        assert (own >= best - 1e-3).all()
        assert own.sum() <= textbook.sum() + 1e-3

    @given(st.integers(0, 1000), st.integers(1, 4))
    def test_weights_are_the_least_squares_of_their_support(self, seed: int, t: int) -> None:
        vectors, dictionary = problem(9, 6, 5, seed)
        for row, weights in enumerate(dense(self.solve(vectors, dictionary, t))):
            support = np.flatnonzero(weights)
            best = np.linalg.lstsq(dictionary[support].T, vectors[row], rcond=None)[0]
            assert np.allclose(weights[support], best, atol=2e-3)

    @given(st.integers(0, 1000))
    def test_more_atoms_fit_no_worse_in_all(self, seed: int) -> None:
        vectors, dictionary = problem(12, 8, 5, seed)
        errors = [row_errors(vectors, dictionary, self.solve(vectors, dictionary, t)) for t in (1, 2, 4, 8)]
        for fewer, more in pairwise(errors):
            assert more.sum() <= fewer.sum() + 1e-3

    @pytest.mark.parametrize("t", [1, 2, 4, 8])
    def test_fits_better_than_pinv(self, t: int) -> None:
        for seed in range(5):
            vectors, dictionary = problem(200, 40, 12, seed)
            own, paper = (SOLVERS[name](vectors, dictionary, t, 256.0) for name in (self.name, "pinv"))
            assert relative_error(vectors, dictionary, own) <= relative_error(vectors, dictionary, paper)

    def test_largest_weight_first(self) -> None:
        weights = self.solve(*problem(30, 10, 6, seed=8), 3).weights
        assert (np.diff(weights, axis=1) <= 0).all()


def best_with(vectors: np.ndarray, dictionary: np.ndarray, support: Sequence[int], signed: bool = False) -> np.ndarray:
    """The error of every row when only these atoms may be used; for one atom, with a weight that is not negative."""
    atoms = dictionary[list(support)].astype(np.float64)
    weights = vectors @ np.linalg.pinv(atoms)
    return np.linalg.norm(vectors - (weights if signed else np.maximum(weights, 0)) @ atoms, axis=1)


def plain_pursuit(vectors: np.ndarray, dictionary: np.ndarray, t: int) -> np.ndarray:
    """Orthogonal matching pursuit as the textbook writes it, one row after the other."""
    result = np.zeros((len(vectors), len(dictionary)))
    unit = dictionary / np.linalg.norm(dictionary, axis=1, keepdims=True)
    for row, vector in enumerate(vectors):
        support: list[int] = []
        residual = vector
        for _ in range(t):
            gains = np.abs(unit @ residual)
            gains[support] = -1
            if gains.max() < 1e-5 * np.linalg.norm(vector):
                break
            support.append(int(gains.argmax()))
            weights = np.linalg.lstsq(dictionary[support].T, vector, rcond=None)[0]
            residual = vector - weights @ dictionary[support]
        result[row, support] = weights
    return result
