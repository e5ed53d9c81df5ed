# SPDX-License-Identifier: Apache-2.0
"""What a batch holds: pairs of the data, negatives nobody has seen, and every entity once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.config import TrainingConfig
from legcf.data.interactions import Interactions
from legcf.training.sampler import Sampler, TrainingBatch
from tests.helpers import graphs, interactions, random_interactions


def epoch(
    train: Interactions, seed: int = 0, size: int = 7, negatives: int = 2, **options: object
) -> list[TrainingBatch]:
    order = options.pop("order", "interaction")
    kind = options.pop("kind", "each")
    sampler = Sampler(train, TrainingConfig(batch_size=size, negatives=negatives, order=order), kind)  # type: ignore[arg-type]
    batches = list(sampler.epoch(np.random.default_rng(seed)))
    assert len(batches) == sampler.steps_per_epoch
    return batches


def pairs(train: Interactions, batches: list[TrainingBatch]) -> list[tuple[int, int]]:
    users = np.concatenate([batch.entities[batch.users] for batch in batches])
    items = np.concatenate([batch.entities[batch.positives] for batch in batches]) - train.num_users
    return list(zip(users.tolist(), items.tolist(), strict=True))


@given(graphs(), st.integers(0, 100), st.sampled_from(["each", "shared"]))
def test_every_pair_once_and_every_entity_once_a_batch(train: Interactions, seed: int, kind: str) -> None:
    batches = epoch(train, seed, kind=kind)
    if not train.num_pairs:
        assert batches == []
        return
    assert sorted(pairs(train, batches)) == list(zip(train.users().tolist(), train.items.tolist(), strict=True))
    for batch in batches:
        used = np.concatenate([batch.users, batch.positives, batch.negatives.ravel()])
        assert len(np.unique(batch.entities)) == len(batch.entities)
        assert np.array_equal(np.unique(used), np.arange(len(batch.entities)))
        assert (batch.entities[batch.users] < train.num_users).all()
        assert (batch.entities[batch.positives] >= train.num_users).all()


@given(graphs(), st.integers(0, 100), st.integers(1, 4))
def test_negatives_are_unseen_and_distinct_where_there_are_enough(
    train: Interactions, seed: int, negatives: int
) -> None:
    for batch in epoch(train, seed, negatives=negatives):
        items = batch.entities[batch.negatives] - train.num_users
        assert ((items >= 0) & (items < train.num_items)).all()
        for user, drawn in zip(batch.entities[batch.users], items, strict=True):
            unseen = train.num_items - len(train.of(user))
            if unseen:
                assert not set(drawn.tolist()) & set(train.of(user).tolist())
            if unseen >= negatives:
                assert len(set(drawn.tolist())) == negatives


def test_a_pool_of_negatives_leaves_every_item_as_likely() -> None:
    train = random_interactions(30, 60, 0.15, seed=3)
    sampler = Sampler(train, TrainingConfig(batch_size=50, negatives=3, negative_pool=20), "each")
    counts = np.zeros(train.num_items)
    for seed in range(60):
        for batch in sampler.epoch(np.random.default_rng(seed)):
            items = batch.entities[batch.negatives] - train.num_users
            assert len(np.unique(items)) <= 20
            for user, drawn in zip(batch.entities[batch.users], items, strict=True):
                assert not set(drawn.tolist()) & set(train.of(user).tolist())
                assert len(set(drawn.tolist())) == 3
            np.add.at(counts, items.ravel(), 1)
    taken = np.array([np.count_nonzero(train.items == item) for item in range(train.num_items)])
    rare = counts[taken <= np.median(taken)]
    assert rare.min() > 0.6 * rare.mean()


def test_a_user_with_everything_does_not_hang() -> None:
    train = interactions([(0, item) for item in range(200)] + [(1, item) for item in range(199)], 2, 200)
    batches = epoch(train, negatives=5, size=64)
    items = np.concatenate([batch.entities[batch.negatives] for batch in batches]) - 2
    users = np.concatenate([batch.entities[batch.users] for batch in batches])
    assert ((items >= 0) & (items < 200)).all()
    assert (items[users == 1] == 199).all()


def test_negatives_are_uniform_over_unseen_items() -> None:
    train = interactions([(0, 0), (0, 3)], 1, 6)
    drawn = np.concatenate(
        [batch.entities[batch.negatives].ravel() - 1 for seed in range(1500) for batch in epoch(train, seed)]
    )
    counts = np.bincount(drawn, minlength=6)
    assert counts[0] == counts[3] == 0
    assert np.allclose(counts[[1, 2, 4, 5]] / len(drawn), 0.25, atol=0.03)


def test_user_order_draws_users_evenly_and_then_their_items() -> None:
    """Ten users of very different activity: chi-square of how often each comes, and of one user's items."""
    train = interactions([(user, item) for user in range(10) for item in range(3 * user + 1)], 12, 40)
    found = [pair for seed in range(40) for pair in pairs(train, epoch(train, seed, size=64, order="user"))]
    counts = np.bincount([user for user, _ in found], minlength=12)
    expected = len(found) / 10
    assert counts[10] == counts[11] == 0
    assert ((counts[:10] - expected) ** 2 / expected).sum() < 28  # 9 degrees of freedom, p ≈ 0.001
    items = np.bincount([item for user, item in found if user == 9], minlength=40)
    expected = items.sum() / 28
    assert items[28:].sum() == 0
    assert ((items[:28] - expected) ** 2 / expected).sum() < 56  # 27 degrees of freedom
    assert set(found) <= set(zip(train.users().tolist(), train.items.tolist(), strict=True))


@pytest.mark.parametrize("order", ["interaction", "user"])
@pytest.mark.parametrize("kind", ["each", "shared"])
def test_the_generator_decides(order: str, kind: str) -> None:
    train = random_interactions(20, 30, 0.2, seed=0)
    first, again, other = (epoch(train, seed, order=order, kind=kind) for seed in (1, 1, 2))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one.entities, two.entities)
        assert np.array_equal(one.negatives, two.negatives)
    assert pairs(train, first) != pairs(train, other)


def test_a_second_epoch_is_shuffled_anew() -> None:
    train = random_interactions(20, 30, 0.2, seed=0)
    sampler, rng = Sampler(train, TrainingConfig(batch_size=16, negatives=1), "each"), np.random.default_rng(0)
    assert pairs(train, list(sampler.epoch(rng))) != pairs(train, list(sampler.epoch(rng)))


def test_shared_negatives_are_distinct_and_no_more_than_there_are_items() -> None:
    train = random_interactions(20, 30, 0.2, seed=0)
    for batch in epoch(train, negatives=500, kind="shared"):
        assert len(np.unique(batch.negatives)) == len(batch.negatives) == 30
