# SPDX-License-Identifier: Apache-2.0
"""How much of an item is new, against a count by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.updating.vectors import new_share
from tests.helpers import graphs


@given(graphs(), st.integers(0, 2**32 - 1))
def test_against_a_count_by_hand(train: Interactions, seed: int) -> None:
    is_new = np.random.default_rng(seed).random(train.num_pairs) < 0.3
    added = train.subset(is_new)
    shares = new_share(train, added)
    for item in range(train.num_items):
        whole = fresh = 0.0
        for user in range(train.num_users):
            own, new = train.of(user), added.of(user)
            if item in own:
                whole += 1
                fresh += 1 if item in new else len(new) / len(own)
        assert np.isclose(shares[item], fresh / whole if whole else 0)


def test_nothing_new_and_everything_new() -> None:
    train = Interactions.from_pairs(np.array([0, 0, 1]), np.array([0, 1, 1]), 2, 3)
    assert new_share(train, Interactions.empty(2, 3)).tolist() == [0, 0, 0]
    assert new_share(train, train).tolist() == [1, 1, 0]
