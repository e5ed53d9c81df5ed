# SPDX-License-Identifier: Apache-2.0
"""Filters of the item graph: each against its dense form, and what cannot be made of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.ranking.ranking import Ranking
from legcf.recommender import Recommender
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.run_folder import TrainedModel, load_model
from legcf_studies.methods.filtered.chebycf import interpolated
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def solved(dataset: Dataset, method: str, folder: Path | None = None, **options: Any) -> TrainedModel:
    config = resolve(method, preset="paper", overrides={"method": options})
    return train(dataset, config, TrainingOptions(folder, quiet=True))


def dense_parts(dataset: Dataset, ranking: Ranking) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """R, P = R̃ᵀR̃, V Vᵀ and the items' degrees, 1 where nobody has the item."""
    pairs = dataset.train.to_scipy().toarray().astype(np.float64)
    users, items = np.maximum(pairs.sum(axis=1), 1), np.maximum(pairs.sum(axis=0), 1)
    scaled = pairs / np.sqrt(users[:, None] * items)
    vectors = ranking.items.astype(np.float64)
    return pairs, scaled.T @ scaled, vectors @ vectors.T, items


def scores_of(ranking: Ranking) -> np.ndarray:
    scores = np.zeros((ranking.num_users, ranking.num_items), np.float32)
    assert ranking.filter is not None
    ranking.filter.score(ranking.histories, scores)
    return scores


def test_chebycf_is_its_dense_form(dataset: Dataset) -> None:
    ranking = solved(dataset, "chebycf", dim=5, order=4).ranking
    pairs, graph, ideal, degrees = dense_parts(dataset, ranking)
    laplacian, size = np.eye(len(graph)) - 2 * graph, len(graph)
    terms = [np.eye(size), laplacian]
    for _ in range(3):
        terms.append(2 * laplacian @ terms[-1] - terms[-2])
    whole = sum(c * term for c, term in zip(interpolated(4, 1.5), terms, strict=True)) + 0.2 * ideal
    expected = (pairs / degrees**0.4) @ whole * degrees**0.4
    had = dataset.train.item_degrees > 0
    assert np.allclose(scores_of(ranking)[:, had], expected[:, had], atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"solver": "euler", "average": True, "steps": 2}, {"sharpen_ideal": False}])
def test_bspm_is_what_its_solver_gives(dataset: Dataset, options: dict[str, Any]) -> None:
    """Compared with Runge–Kutta and Euler step by step."""
    ranking = solved(dataset, "bspm", dim=5, **options).ranking
    pairs, graph, ideal, degrees = dense_parts(dataset, ranking)
    kept, blurred = 0.2 * (pairs / np.sqrt(degrees)) @ ideal * np.sqrt(degrees), pairs @ graph
    state = blurred + (kept if options.get("sharpen_ideal", True) else 0)
    steps, seen = options.get("steps", 1), [blurred]
    h = 2.5 / steps
    for _ in range(steps):
        if options.get("solver") == "euler":
            state = state - h * state @ graph
        else:
            k1 = -state @ graph
            k2 = -(state + h / 2 * k1) @ graph
            k3 = -(state + h / 2 * k2) @ graph
            k4 = -(state + h * k3) @ graph
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        seen.append(state)
    expected = (np.mean(seen, axis=0) if options.get("average") else state) + (
        0 if options.get("sharpen_ideal", True) else kept
    )
    assert np.allclose(scores_of(ranking), expected, atol=1e-3)


def test_it_is_above_chance_comes_back_and_is_not_exported(dataset: Dataset, tmp_path: Path) -> None:
    popular = train(dataset, resolve("popularity"), TrainingOptions(quiet=True)).metrics["test"]["ndcg@20"]
    for method in ("chebycf", "bspm"):
        trained = solved(dataset, method, tmp_path / method, dim=5)
        assert trained.metrics["test"]["ndcg@20"] > 1.2 * popular
        assert np.array_equal(scores_of(load_model(tmp_path / method).ranking), scores_of(trained.ranking))
        model = Recommender.load(tmp_path / method)
        assert len(model.recommend([dataset.users.external(np.array([0]))[0]], k=3)) == 3
        with pytest.raises(UserError, match="recommend from the run folder"):
            model.export(tmp_path / "model.legcf")
    assert not (tmp_path / "model.legcf").exists()


def test_a_budget_sets_the_number_of_vectors(dataset: Dataset) -> None:
    trained = solved(dataset, "chebycf", budget=48 * 3 + 1)
    assert (trained.model.layer.width, trained.metrics["num_params"]) == (3, 48 * 3)
