# SPDX-License-Identifier: Apache-2.0
"""Coverage, novelty and likeness of lists, against what they say they are."""

from itertools import combinations

import numpy as np
import pytest

from legcf.evaluation.beyond_accuracy import coverage, novelty, similarity

RANKED = np.array([[0, 1, 2], [2, 3, -1], [4, -1, -1], [-1, -1, -1]], dtype=np.int32)


def test_coverage_counts_every_shown_item_once() -> None:
    assert coverage(RANKED, 10) == 0.5
    assert coverage(RANKED[3:], 10) == 0.0


def test_novelty_is_the_mean_of_bits() -> None:
    popularity = np.array([8, 4, 2, 1, 0])
    bits = [0.0, 1.0, 2.0, 3.0, 3.0]  # of eight users; nobody counts as one
    assert novelty(RANKED, popularity, 8) == pytest.approx(np.mean([np.mean(bits[:3]), np.mean(bits[2:4]), bits[4]]))
    assert novelty(RANKED[3:], popularity, 8) == 0.0


def test_similarity_is_the_mean_of_cosines_of_pairs() -> None:
    vectors = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    means = [np.mean([unit[a] @ unit[b] for a, b in combinations(row, 2)]) for row in ([0, 1, 2], [2, 3])]
    assert similarity(RANKED, vectors) == pytest.approx(np.mean(means), rel=1e-5)
    assert similarity(RANKED[2:], vectors) == 0.0
