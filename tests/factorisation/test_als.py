# SPDX-License-Identifier: Apache-2.0
"""The factorisation solves what it says, ranks planted communities, and is decided by its seed."""

import numpy as np

from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.factorisation.als import AlsSettings, confidences, factorise, with_alpha
from legcf.factorisation.half_step import solve_side
from legcf.factorisation.history_vectors import history_metric
from legcf.graph.adjacency import bipartite, normalised
from legcf.ranking.ranking import Ranking
from tests.helpers import planted, random_interactions


def test_a_side_is_the_solution_of_its_normal_equations() -> None:
    train = random_interactions(20, 30, 0.2, seed=1)
    settings = AlsSettings(gradient_steps=60, alpha=5.0, regularisation=0.5)
    rng = np.random.default_rng(0)
    items = rng.standard_normal((30, 4)).astype(np.float32)
    users = np.zeros((20, 4), dtype=np.float32)
    weights = confidences(train, settings)
    solve_side(weights, users, items, settings)
    dense = weights.toarray().astype(np.float64)
    for user in range(20):
        extra = np.where(dense[user] > 0, dense[user] - 1, 0)
        system = items.T @ items + (items * extra[:, None]).T @ items + 0.5 * np.eye(4)
        assert np.allclose(users[user], np.linalg.solve(system, items.T @ dense[user]), atol=1e-3)


def test_pairs_weigh_the_same_without_degree_power_and_alpha_on_average() -> None:
    train = random_interactions(20, 30, 0.2, seed=2)
    assert np.allclose(confidences(train, AlsSettings(degree_power=0, alpha=7)).data, 7)
    assert np.isclose(confidences(train, AlsSettings(alpha=7)).data.mean(), 7)


def test_finds_blocks_and_repeats_itself() -> None:
    rng = np.random.default_rng(3)
    block = np.kron(np.eye(4), np.ones((15, 12))) > 0
    shown = block & (rng.random(block.shape) < 0.5)
    rest = block & ~shown
    make = lambda matrix: random_interactions_from(matrix)  # noqa: E731
    train, test = make(shown), make(rest)
    users, items = factorise(train, 8, np.random.default_rng(5), AlsSettings())
    again, _ = factorise(train, 8, np.random.default_rng(5), AlsSettings())
    assert np.array_equal(users, again)
    assert evaluate(Ranking(users, items, train), test, (5,), metrics=("precision",))["precision@5"] > 0.9


def random_interactions_from(matrix):  # type: ignore[no-untyped-def]
    from legcf.data.interactions import Interactions

    return Interactions.from_pairs(*np.nonzero(matrix), *matrix.shape)


def test_history_metric_makes_sums_act_like_users() -> None:
    train = random_interactions(200, 60, 0.15, seed=4)
    rng = np.random.default_rng(0)
    items = rng.standard_normal((60, 5)).astype(np.float32)
    root = rng.standard_normal((5, 5))
    wanted = (root @ root.T + 5 * np.eye(5)).astype(np.float32)
    sums = normalised(bipartite(train))[:200, 200:] @ items
    found = history_metric(train, items, sums @ wanted)
    assert np.allclose(found @ found.T, wanted, rtol=0.05, atol=0.2)


def test_alpha_is_found_on_training_pairs_and_the_same_again() -> None:
    train = planted(60, 60).train
    found = [with_alpha(train, 8, np.random.default_rng(3), AlsSettings()) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].alpha is not None
    assert 1 <= found[0].alpha <= 100
    chosen = factorise(train, 8, np.random.default_rng(3), AlsSettings())
    generator = np.random.default_rng(3)
    told = factorise(train, 8, generator, with_alpha(train, 8, generator, AlsSettings()))
    assert all(np.array_equal(one, other) for one, other in zip(chosen, told, strict=True))


def test_without_pairs_to_hide_alpha_is_its_first_guess() -> None:
    train = Interactions.from_pairs(np.arange(3), np.arange(3), 3, 3)
    settings = with_alpha(train, 2, np.random.default_rng(0), AlsSettings())
    assert settings.alpha == 10
    users, items = factorise(train, 2, np.random.default_rng(0), AlsSettings())
    assert np.isfinite(users).all()
    assert np.isfinite(items).all()
