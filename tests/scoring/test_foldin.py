# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from legcf.data.interactions import Interactions
from legcf.modelfile.served_model import FoldIn
from legcf.ranking.tables.embedding_table import DenseTable, measure
from legcf.scoring import foldin
from legcf.scoring.foldin import FoldInSolver

WIDTH, ITEMS = 6, 40


def one_by_one(vectors: np.ndarray, counts: np.ndarray, settings: FoldIn, history: np.ndarray) -> np.ndarray:
    """The system as it is written down, for one history."""
    if not len(history):
        return np.zeros(WIDTH)
    gram = vectors.T @ vectors
    weights = counts[history] ** -settings.damping
    weights = np.diag(weights / weights.mean())
    own = vectors[history]
    ridge = settings.ridge * np.trace(gram) / WIDTH * np.eye(WIDTH)
    system = settings.unobserved * gram + ridge + own.T @ weights @ own
    return settings.scale * np.linalg.solve(system, own.T @ weights.sum(axis=1))


@pytest.mark.parametrize("together", [1, 50, 2**17])
@pytest.mark.parametrize("settings", [FoldIn(0.1, 0.1, 0.0), FoldIn(0.01, 1e-3, 0.5, 2.0), FoldIn(0.01, 100.0, 0.25)])
def test_all_at_once_are_as_one_by_one(settings: FoldIn, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foldin, "_MOST_NUMBERS", together)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((ITEMS, WIDTH)).astype(np.float32)
    counts = rng.integers(1, 50, ITEMS).astype(np.float32)
    # some shorter than the vectors are wide, some longer, some empty
    histories = [np.sort(rng.permutation(ITEMS)[:length]) for length in (0, 3, 1, 20, 6, 5, 0, 7, 40, 2, 2)]
    lists = Interactions(np.cumsum([0, *map(len, histories)]), np.concatenate(histories).astype(np.int32), ITEMS)
    solver = FoldInSolver(DenseTable(vectors), counts, settings)
    solved = solver.vectors(lists)
    assert solved.dtype == np.float32
    for history, vector in zip(histories, solved, strict=True):
        wanted = one_by_one(vectors.astype(np.float64), counts.astype(np.float64), settings, history)
        np.testing.assert_allclose(vector, wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(solver.vector(history), vector, rtol=1e-5, atol=1e-7)


def test_nobody_to_solve() -> None:
    solver = FoldInSolver(DenseTable(np.ones((3, WIDTH), np.float32)), np.ones(3, np.float32), FoldIn())
    assert solver.vectors(Interactions.empty(0, ITEMS)).shape == (0, WIDTH)


def test_measures() -> None:
    vectors = np.random.default_rng(1).standard_normal((3000, WIDTH)).astype(np.float32)
    vectors[7] = 0
    gram, lengths = measure(DenseTable(vectors))
    np.testing.assert_allclose(gram, vectors.T.astype(np.float64) @ vectors, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(lengths, np.maximum(np.linalg.norm(vectors, axis=1), 1e-12), rtol=1e-5)
