# SPDX-License-Identifier: Apache-2.0
"""All users at once where they are their histories: compiled, with numpy and one by one, the same to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.pooling import Pooling
from legcf.ranking.tables.pooling_numba import pooled_codes
from legcf.scoring.foldin import user_maker
from legcf.scoring.scorer import Scorer


@pytest.fixture
def pooled(model: ServedModel) -> ServedModel:
    return replace(model, user_rows=None, pooling=Pooling(0.5, 0.3, model.popularity))


def test_vectors_of_users(pooled: ServedModel) -> None:
    assert pooled.history is not None
    assert pooled.pooling is not None
    histories, maker = pooled.history.all(), user_maker(pooled)
    fast = pooled_codes(pooled.pooling, histories, pooled.item_rows)
    np.testing.assert_array_equal(fast, [maker.vector(histories.of(user)) for user in range(histories.num_users)])
    np.testing.assert_allclose(fast, maker.vectors(histories), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_best_items(pooled: ServedModel, exclude_seen: bool) -> None:
    scorer = Scorer(pooled)
    for plain, fast in zip(
        scorer.recommend_all(7, exclude_seen, compiled=False),
        scorer.recommend_all(7, exclude_seen, compiled=True),
        strict=True,
    ):
        np.testing.assert_array_equal(fast, plain)
