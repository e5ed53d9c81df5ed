# SPDX-License-Identifier: Apache-2.0
"""A ranking and what is made of it."""

import numpy as np

from legcf.ranking.ranking import Ranking
from tests.helpers import planted


def test_a_ranking_of_some_users_ranks_them_as_that_of_all_does() -> None:
    train = planted(30, 20, seed=3).train
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((count, 4)).astype(np.float32) for count in (train.num_users, train.num_items)]
    whole = Ranking(*vectors, train, dislikes=train.subset(rng.random(train.num_pairs) < 0.1))
    users = np.array([7, 2, 19])
    some = whole.of_users(users)
    np.testing.assert_array_equal(some.hidden.items, whole.hidden.of_users(users).items)
    np.testing.assert_array_equal(some.popularity, whole.popularity)
    np.testing.assert_array_equal(some.users, whole.users[users])
    assert whole.of_users(None) is whole
