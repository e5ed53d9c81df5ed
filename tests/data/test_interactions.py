# SPDX-License-Identifier: Apache-2.0
"""CSR parts: built from pairs in any order, hashed by content."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from tests.helpers import graphs

pairs_strategy = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=60)


def build(pairs: list[tuple[int, int]]) -> Interactions:
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(array[:, 0], array[:, 1], 7, 10)


@given(pairs_strategy)
def test_pairs_in_any_order_give_the_same_part(pairs: list[tuple[int, int]]) -> None:
    part = build(pairs)
    assert list(zip(part.users().tolist(), part.items.tolist(), strict=True)) == sorted(set(pairs))
    assert part.digest() == build(pairs[::-1]).digest()
    assert part.items.dtype == np.int32


@given(pairs_strategy)
def test_transposing_twice_is_nothing(pairs: list[tuple[int, int]]) -> None:
    part = build(pairs)
    assert part.transposed().transposed().digest() == part.digest()
    np.testing.assert_array_equal(part.transposed().user_degrees, part.item_degrees)
    np.testing.assert_array_equal(part.to_scipy().toarray().sum(axis=1), part.user_degrees)


def test_the_digest_knows_pairs_and_sizes() -> None:
    assert build([(0, 1)]).digest() != build([(1, 0)]).digest()
    assert Interactions.empty(3, 4).digest() != Interactions.empty(4, 3).digest()


@given(graphs(), st.integers(0, 1000))
def test_pairs_of_some_users_in_their_order(train: Interactions, seed: int) -> None:
    users = np.random.default_rng(seed).integers(0, train.num_users, 5)
    some = train.of_users(users)
    assert (some.num_users, some.num_items) == (5, train.num_items)
    assert all(np.array_equal(some.of(place), train.of(int(user))) for place, user in enumerate(users))


@given(graphs(), st.sampled_from((0.1, 1 / 3, 1.0)), st.integers(0, 3))
def test_holding_out_takes_the_same_share_of_everyone_and_leaves_a_pair(
    train: Interactions, share: float, seed: int
) -> None:
    nothing = Interactions.empty(train.num_users, train.num_items)
    ids = IdMap.consecutive(train.num_users), IdMap.consecutive(train.num_items)
    whole = Dataset("some", "lightgcn", *ids, train, nothing, nothing)
    held = whole.holding_out(share, np.random.default_rng(seed))
    wanted = np.minimum(np.floor(train.user_degrees * share + 0.5), np.maximum(train.user_degrees - 1, 0))
    np.testing.assert_array_equal(held.validation.user_degrees, wanted)
    assert held.train.joined(held.validation).digest() == train.digest()
