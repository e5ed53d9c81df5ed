# SPDX-License-Identifier: Apache-2.0
"""The size-choosing agent: its walk, its memory, its targets, and toys whose best sizes are known."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf_studies.methods.recipes.td3 import STATE, Replay, SizeSteps, Td3, Td3Settings, fit_sizes, reward

SMALL = Td3Settings(hidden=32, batch_size=128, discount=0.0)


def agent(most: int = 16, seed: int = 0, capacity: int = 5000) -> Td3:
    return Td3(SMALL, SizeSteps(most), capacity, np.random.default_rng(seed))


class TestSizes:
    @given(st.integers(1, 40), st.integers(0, 2**32 - 1))
    @settings(max_examples=30, deadline=None)
    def test_a_walk_stays_in_range_and_hops_at_most_five(self, most: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        visited = SizeSteps(most).walk(torch.from_numpy(rng.uniform(-5, most + 5, 50)), 5, rng)
        assert visited.shape == (50, 6)
        assert visited.min() >= 1
        assert visited.max() <= most
        hops = visited.diff(dim=1).abs()
        assert hops.max() <= 5
        assert (hops > 0).all() or most == 1

    def test_hops_are_as_likely_as_they_are_short(self) -> None:
        visited = SizeSteps(100).walk(torch.full((200_000,), 50.0), 1, np.random.default_rng(0))
        distance = visited.diff(dim=1).abs().int().ravel()
        shares = torch.bincount(distance, minlength=6)[1:] / len(distance)
        wanted = 1 / torch.arange(1, 6)
        assert torch.allclose(shares, wanted / wanted.sum(), atol=0.005)

    def test_the_scale_reaches_both_ends(self) -> None:
        sizes = SizeSteps(128)
        assert sizes.scaled(torch.tensor([1.0, 128.0])).tolist() == [-1, 1]
        assert torch.allclose(sizes.unscaled(sizes.scaled(torch.tensor([5.0, 77.0]))), torch.tensor([5.0, 77.0]))
        assert SizeSteps(1).scaled(torch.tensor([1.0])).isfinite().all()


class TestReplay:
    def rows(self, *values: float) -> tuple[torch.Tensor, ...]:
        column = torch.tensor(values).float()
        return column[:, None].expand(-1, STATE), column, column, column[:, None].expand(-1, STATE)

    def test_wraps_around(self) -> None:
        replay = Replay(4)
        for values in ((1, 2, 3), (4, 5, 6)):
            replay.record(*self.rows(*values))
        drawn = replay.sample(200, np.random.default_rng(0))
        assert len(replay) == 4
        assert set(drawn[1].tolist()) == {3, 4, 5, 6}
        assert all(torch.equal(part if part.ndim == 1 else part[:, 0], drawn[1]) for part in drawn)

    def test_more_than_fits_keeps_the_last(self) -> None:
        replay = Replay(2)
        replay.record(*self.rows(1, 2, 3, 4, 5))
        assert set(replay.sample(50, np.random.default_rng(0))[2].tolist()) == {4, 5}

    def test_comes_back(self) -> None:
        replay, other = Replay(4), Replay(4)
        replay.record(*self.rows(1, 2, 3))
        other.load_state(replay.state())
        for each in (replay, other):
            each.record(*self.rows(4, 5))
        drawn = [each.sample(20, np.random.default_rng(1))[1] for each in (replay, other)]
        assert torch.equal(*drawn)


class TestReward:
    @given(st.floats(0, 1), st.floats(0.01, 10), st.integers(1, 63))
    def test_falls_with_the_size(self, quality: float, weight: float, size: int) -> None:
        both = reward(torch.tensor([quality, quality]).double(), torch.tensor([size, size + 1.0]), 64, weight)
        assert both[1] < both[0]

    def test_without_weight_the_size_does_not_matter(self) -> None:
        quality = torch.rand(5)
        assert torch.equal(reward(quality, torch.arange(1.0, 6), 8, 0.0), quality)


class TestFitted:
    @given(st.lists(st.integers(1, 128), min_size=1, max_size=50), st.integers(0, 500))
    def test_fits_where_anything_can(self, sizes: list[int], spare: int) -> None:
        given, allowed = np.array(sizes), len(sizes) + spare
        result = fit_sizes(given, allowed)
        assert result.sum() <= allowed
        assert (result >= 1).all()
        assert (result <= given).all()
        assert (np.diff(result[np.argsort(given, kind="stable")]) >= 0).all()
        if given.sum() <= allowed:
            assert (result == given).all()


class TestTd3:
    def test_the_actor_stays_in_range_at_any_input(self) -> None:
        far = torch.tensor([[1e9] * STATE, [-1e9] * STATE, [0.0] * STATE])
        chosen = agent().choose(far, walk_steps=5, noise=1e6, rng=np.random.default_rng(0))
        assert chosen.tolist() == [16, 16, 16]
        actions = agent().nets["actor"](far)
        assert actions.abs().max() <= 1

    def test_it_starts_in_the_middle(self) -> None:
        state = torch.rand(100, STATE) * 2 - 1
        assert agent().nets["actor"](state).abs().max() < 0.02

    def test_targets_start_as_copies_and_follow_slowly(self) -> None:
        learner = agent()
        pairs = list(zip(learner.targets.parameters(), learner.nets.parameters(), strict=True))
        assert all(torch.equal(target, own) for target, own in pairs)
        with torch.no_grad():
            for own in learner.nets.parameters():
                own.add_(1)
        learner.follow(0.25, *learner.nets)
        assert all(torch.allclose(own - target, torch.full_like(own, 0.75), atol=1e-5) for target, own in pairs)
        learner.follow(1.0, *learner.nets)
        assert all(torch.allclose(target, own) for target, own in pairs)

    def test_without_experience_nothing_is_learned(self) -> None:
        learner = agent()
        before = learner.state()
        learner.learn(3, np.random.default_rng(0))
        assert torch.equal(before["agent/updates"], learner.state()["agent/updates"])

    @pytest.mark.parametrize(("weight", "direction"), [(1.0, -1), (-1.0, 1)])
    def test_a_bandit_finds_the_end_that_pays(self, weight: float, direction: int) -> None:
        """Where quality is the same everywhere, the price of size alone decides."""
        rng, learner, most = np.random.default_rng(1), agent(), 16
        state = torch.from_numpy(rng.uniform(-1, 1, (200, STATE)).astype(np.float32))
        means = []
        for _ in range(15):
            sizes = learner.choose(state, 5, float(rng.normal(0, 3)), rng)
            means.append(float(learner.choose(state, 0, 0.0, rng).mean()))
            learner.replay.record(state, sizes, reward(torch.full((200,), 0.1), sizes, most, weight), state)
            learner.learn(15, rng)
        assert direction * (means[-1] - means[0]) > 3

    def test_the_seed_decides_and_a_copy_goes_on_the_same(self) -> None:
        state = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (50, STATE)).astype(np.float32))

        def round_of(learner: Td3, rng: np.random.Generator) -> torch.Tensor:
            sizes = learner.choose(state, 5, 2.0, rng)
            learner.replay.record(state, sizes, reward(torch.zeros(50), sizes, 16, 1.0), state)
            learner.learn(3, rng)
            return sizes

        first, second = agent(seed=4), agent(seed=4)
        rngs = [np.random.default_rng(5), np.random.default_rng(5)]
        for _ in range(3):
            assert torch.equal(round_of(first, rngs[0]), round_of(second, rngs[1]))
        copy = agent(seed=99)
        copy.load_state({key: torch.as_tensor(value).clone() for key, value in first.state().items()})
        for _ in range(3):
            assert torch.equal(round_of(first, rngs[0]), round_of(copy, rngs[1]))
        for name, tensor in first.state().items():
            assert np.array_equal(copy.state()[name], tensor), name
