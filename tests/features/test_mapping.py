# SPDX-License-Identifier: Apache-2.0
"""From features to vectors."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.features.encoder import FeatureMap
from legcf.features.mapping import fit_map
from legcf.ranking.tables.pooling import Pooling

USERS, ITEMS, WIDTH = 200, 300, 6


@pytest.fixture(scope="module")
def planted() -> tuple[sp.csr_matrix, NDArray[np.float32], Interactions]:
    """Items of six kinds, which the first six places of a row tell; the other six are noise. Users like one kind."""
    rng = np.random.default_rng(2)
    kinds = np.arange(ITEMS) % WIDTH
    rows = np.hstack([np.eye(WIDTH)[kinds], rng.standard_normal((ITEMS, WIDTH))])
    vectors = np.eye(WIDTH)[kinds] + 0.3 * rng.standard_normal((ITEMS, WIDTH))
    likes = (np.arange(USERS) % WIDTH)[:, None] == kinds
    users, items = np.nonzero(likes & (rng.random(likes.shape) < 0.4))
    return sp.csr_matrix(rows.astype(np.float32)), vectors.astype(np.float32), _pairs(users, items)


def _pairs(users: NDArray[np.integer], items: NDArray[np.integer]) -> Interactions:
    return Interactions.from_pairs(users, items, USERS, ITEMS)


def _fitted(rows: sp.csr_matrix, vectors: NDArray[np.float32], histories: Interactions) -> FeatureMap:
    return fit_map(rows, [WIDTH, WIDTH], vectors, histories, Pooling(0.5, 0.5, histories.item_degrees))


def test_columns_that_say_nothing_count_less(
    planted: tuple[sp.csr_matrix, NDArray[np.float32], Interactions],
) -> None:
    found = _fitted(*planted)
    told, noise = np.abs(found.matrix[:WIDTH]).mean(), np.abs(found.matrix[WIDTH:]).mean()
    assert noise < 0.2 * told
    assert (found.vectors(planted[0]).argmax(axis=1) == np.arange(ITEMS) % WIDTH).mean() > 0.99


def test_items_nobody_has_do_not_count(planted: tuple[sp.csr_matrix, NDArray[np.float32], Interactions]) -> None:
    rows, vectors, histories = planted
    fewer = histories.subset(histories.items >= 20)
    spoilt = vectors.copy()
    spoilt[:20] = 1e3
    assert np.array_equal(_fitted(rows, spoilt, fewer).matrix, _fitted(rows, vectors, fewer).matrix)


def test_with_too_little_to_choose_by_there_is_a_map_all_the_same(
    planted: tuple[sp.csr_matrix, NDArray[np.float32], Interactions],
) -> None:
    rows, vectors, _ = planted
    alone = _fitted(rows, vectors, _pairs(np.array([0]), np.array([5])))
    assert np.allclose(alone.vectors(rows[5:6]), vectors[5:6], atol=1e-4)
    nobody = _fitted(rows, vectors, Interactions.empty(USERS, ITEMS))
    assert not nobody.vectors(rows).any()
