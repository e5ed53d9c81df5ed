# SPDX-License-Identifier: Apache-2.0
"""S as two arrays: its matrix, its statistics and its error."""

import numpy as np
import pytest

from legcf.assignment.assignment import Assignment, relative_error

SMALL = Assignment(
    np.array([[0, 0], [2, 1], [1, 1]], dtype=np.int32), np.array([[0.25, 0.5], [1, 0], [0, 0]], dtype=np.float32), 4
)


def test_repeated_places_add_up_and_zeros_are_left_out() -> None:
    matrix = SMALL.to_csr()
    assert np.array_equal(matrix.toarray(), [[0.75, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    assert matrix.nnz == 2
    assert matrix.indices.dtype == np.int32
    assert np.array_equal(SMALL.weights, [[0.25, 0.5], [1, 0], [0, 0]])


def test_compose_is_the_product() -> None:
    codebook = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert np.array_equal(SMALL.compose(codebook), SMALL.to_csr().toarray() @ codebook)


def test_statistics() -> None:
    told = SMALL.statistics()
    assert told["buckets_used"] == 2
    assert told["weights_per_entity"] == 1
    assert told["weight_max"] == 1


def test_relative_error_in_blocks_equals_the_plain_one() -> None:
    rng = np.random.default_rng(0)
    rows = 40_000
    assignment = Assignment(
        rng.integers(0, 5, (rows, 2), dtype=np.int32), rng.random((rows, 2)).astype(np.float32), num_buckets=5
    )
    vectors, dictionary = (rng.standard_normal((size, 3)).astype(np.float32) for size in (rows, 5))
    wanted = np.linalg.norm(vectors - assignment.compose(dictionary)) / np.linalg.norm(vectors)
    assert np.isclose(relative_error(vectors, dictionary, assignment), wanted, rtol=1e-4)
    assert relative_error(assignment.compose(dictionary), dictionary, assignment) < 1e-6
    assert relative_error(np.zeros_like(vectors), dictionary, assignment) == 0


@pytest.mark.parametrize("index", [-1, 3, 2**30])
def test_an_index_outside_the_codebook_is_refused(index: int) -> None:
    """Compiled code of scipy would read beyond its arrays and end the process."""
    outside = Assignment(np.array([[0, index]], np.int32), np.ones((1, 2), np.float32), 3)
    with pytest.raises(ValueError, match="outside the codebook"):
        outside.to_csr()
