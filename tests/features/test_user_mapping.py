# SPDX-License-Identifier: Apache-2.0
"""From features of users to starting profiles."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.features.user_mapping import fit_user_map

USERS, ITEMS, KINDS = 300, 240, 6


def _data(depends: bool) -> tuple[sp.csr_matrix, NDArray[np.float32], Interactions]:
    """Users of six kinds, who like items of theirs; where nothing depends on it, another kind is said of them."""
    rng = np.random.default_rng(3)
    kinds, items = rng.integers(0, KINDS, USERS), np.arange(ITEMS) % KINDS
    chances = np.where(kinds[:, None] == items, 0.3, 0.02)
    users, taken = np.nonzero(rng.random(chances.shape) < chances)
    said = kinds if depends else rng.integers(0, KINDS, USERS)
    vectors = np.eye(KINDS)[items] + 0.2 * rng.standard_normal((ITEMS, KINDS))
    rows = sp.csr_matrix(np.eye(KINDS, dtype=np.float32)[said])
    return rows, vectors.astype(np.float32), Interactions.from_pairs(users, taken, USERS, ITEMS)


@pytest.mark.parametrize("bias", [0.0, 1e-3, 5.0])
def test_users_are_ranked_for_by_their_kind_whatever_the_bias(bias: float) -> None:
    rows, vectors, histories = _data(depends=True)
    added = (bias * np.random.default_rng(1).standard_normal(ITEMS)).astype(np.float32)
    mapping, facts = fit_user_map(rows, [KINDS], vectors, added if bias else None, histories)
    assert facts["used"]
    assert facts["recall"] > 2 * facts["popularity"]
    starts = mapping.vectors(sp.csr_matrix(np.eye(KINDS, dtype=np.float32)))
    best = np.argsort(-(starts @ vectors.T + added), axis=1)[:, :10] % KINDS
    assert (best == np.arange(KINDS)[:, None]).mean() > 0.9


def test_features_that_say_nothing_leave_popularity_to_decide() -> None:
    rows, vectors, histories = _data(depends=False)
    mapping, facts = fit_user_map(rows, [KINDS], vectors, None, histories)
    assert not facts["used"]
    assert not mapping.vectors(rows).any()


def test_nobody_to_learn_from() -> None:
    rows, vectors, _ = _data(depends=True)
    mapping, facts = fit_user_map(rows, [KINDS], vectors, None, Interactions.empty(USERS, ITEMS))
    assert facts == {"recall": 0.0, "popularity": 0.0, "used": False}
    assert not mapping.vectors(rows).any()
