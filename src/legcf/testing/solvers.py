# SPDX-License-Identifier: Apache-2.0
"""Check what every solver of the assignment update promises: S ≥ 0 with at most t non-zeros in a row."""

from typing import ClassVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf.assignment.assignment import Assignment
from legcf.assignment.solvers import SOLVERS
from legcf.core.arrays import FloatArray


def problem(rows: int, atoms: int, width: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((atoms, width)).astype(np.float32)
    mixture = np.where(rng.random((rows, atoms)) < 0.3, rng.random((rows, atoms)), 0)
    return (mixture @ dictionary + 0.1 * rng.standard_normal((rows, width))).astype(np.float32), dictionary


def dense(assignment: Assignment) -> FloatArray:
    array: FloatArray = assignment.to_csr().toarray()
    return array


class SolverContract:
    """Inherit this and set `name` to the solver's."""

    name: ClassVar[str]

    def solve(self, vectors: FloatArray, dictionary: FloatArray, t: int, cap: float = 256.0) -> Assignment:
        return SOLVERS[self.name](vectors, dictionary, t, cap)

    @settings(deadline=None)
    @given(st.integers(0, 8), st.integers(1, 7), st.integers(1, 5), st.integers(0, 10_000), st.data())
    def test_not_negative_and_at_most_t(
        self, rows: int, atoms: int, width: int, seed: int, data: st.DataObject
    ) -> None:
        t = data.draw(st.integers(1, atoms))
        assignment = self.solve(*problem(rows, atoms, width, seed), t)
        assert assignment.indices.shape == assignment.weights.shape == (rows, t)
        assert assignment.indices.dtype == np.int32
        assert assignment.weights.dtype == np.float32
        assert assignment.num_buckets == atoms
        assert np.isfinite(assignment.weights).all()
        assert (assignment.weights >= 0).all()
        assert ((assignment.indices >= 0) & (assignment.indices < atoms)).all()
        assert ((dense(assignment) != 0).sum(axis=1) <= t).all()

    @settings(deadline=None)
    @given(st.integers(0, 1000), st.integers(1, 3))
    def test_rows_in_batches_equal_rows_at_once(self, seed: int, t: int) -> None:
        vectors, dictionary = problem(23, 6, 4, seed)
        whole = self.solve(vectors, dictionary, t)
        for cap in (1e-9, 5 * 6 * 4 / 2**20):
            assert np.allclose(dense(self.solve(vectors, dictionary, t, cap)), dense(whole), atol=1e-4)

    def test_rows_do_not_depend_on_each_other(self) -> None:
        vectors, dictionary = problem(20, 8, 5, seed=1)
        order = np.random.default_rng(0).permutation(20)
        moved, whole = (dense(self.solve(rows, dictionary, 2)) for rows in (vectors[order], vectors))
        assert np.allclose(moved, whole[order], atol=1e-5)

    def test_a_row_of_zeros_gets_no_weight(self) -> None:
        vectors, dictionary = problem(4, 6, 3, seed=2)
        vectors[1] = 0
        assignment = self.solve(vectors, dictionary, 2)
        assert np.isfinite(assignment.weights).all()
        assert not assignment.weights[1].any()

    def test_a_dictionary_of_zeros(self) -> None:
        assignment = self.solve(np.ones((3, 4), np.float32), np.zeros((5, 4), np.float32), 2)
        assert not assignment.weights.any()

    def test_atoms_that_repeat_or_vanish(self) -> None:
        vectors, dictionary = problem(12, 6, 4, seed=3)
        dictionary[1], dictionary[2], dictionary[3] = dictionary[0], dictionary[0] * (1 + 1e-7), 0
        for t in (1, 2, 6):
            assignment = self.solve(vectors, dictionary, t)
            assert np.isfinite(assignment.weights).all()
            assert (assignment.weights <= 1e3).all()

    def test_the_same_twice(self) -> None:
        vectors, dictionary = problem(40, 9, 5, seed=4)
        first, second = (self.solve(vectors, dictionary, 3) for _ in range(2))
        assert np.array_equal(first.indices, second.indices)
        assert np.array_equal(first.weights, second.weights)

    def test_an_atom_is_found_again(self) -> None:
        """Solve rows that are atoms of an orthogonal dictionary: each is assigned to itself with weight 1."""
        dictionary = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 6)))[0].astype(np.float32)
        assert np.allclose(dense(self.solve(dictionary, dictionary, 1)), np.eye(6), atol=1e-4)

    def test_input_is_left_alone(self) -> None:
        vectors, dictionary = problem(6, 5, 4, seed=6)
        self.solve(vectors, dictionary, 2)
        for left_alone, drawn in zip((vectors, dictionary), problem(6, 5, 4, seed=6), strict=True):
            assert np.array_equal(left_alone, drawn)
