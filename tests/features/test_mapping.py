"""From features to vectors."""

import numpy as np
import scipy.sparse as sp

from legcf.features.mapping import fit_map


def test_a_linear_truth_is_found_and_items_nobody_has_do_not_count() -> None:
    rng = np.random.default_rng(2)
    rows = sp.csr_matrix(rng.random((300, 12)).astype(np.float32))
    truth, start = rng.standard_normal((12, 4)), rng.standard_normal(4)
    vectors = (rows @ truth + start).astype(np.float32)
    popularity = rng.integers(1, 50, 300)
    spoilt = vectors.copy()
    spoilt[:20] = 1e3
    popularity[:20] = 0
    found = fit_map(rows, spoilt, rng.standard_normal((40, 4)).astype(np.float32), popularity)
    assert found.ridge == 0.1  # nothing is uncertain here
    assert np.abs(found.vectors(rows[:20]) - vectors[:20]).max() < 0.2


def test_noise_asks_for_more_ridge() -> None:
    rng = np.random.default_rng(3)
    rows = sp.csr_matrix(rng.random((80, 30)).astype(np.float32))
    noise = rng.standard_normal((80, 4)).astype(np.float32)
    assert fit_map(rows, noise, np.eye(4, dtype=np.float32), np.full(80, 9)).ridge >= 10
