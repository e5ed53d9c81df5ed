# SPDX-License-Identifier: Apache-2.0
"""Users from their histories: one by one and compiled the same to the last bit, many at once with numpy nearly so."""

from dataclasses import replace

import numpy as np
import pytest

from legcf.ranking.tables.pooling import Pooling
from legcf.ranking.tables.pooling_numba import pooled_users
from tests.helpers import random_interactions


@pytest.mark.parametrize("weighed", [False, True])
def test_one_way_or_the_other(weighed: bool) -> None:
    rng = np.random.default_rng(3)
    histories = random_interactions(50, 40, 0.3, 3)
    if weighed:
        histories = replace(histories, weights=rng.random(histories.num_pairs).astype(np.float32) + np.float32(0.1))
    items = rng.standard_normal((40, 37)).astype(np.float32)
    pooling = Pooling(0.5, 0.3, histories.item_degrees)
    compiled = pooled_users(pooling, histories, items)
    for user, vector in enumerate(compiled):
        own = histories.of(user)
        assert np.array_equal(pooling.vector(own, items[own], histories.relative_of(user)), vector)
    assert np.allclose(pooling.vectors(histories, items.__getitem__, items.shape[1]), compiled, rtol=1e-4, atol=1e-6)
