"""A toy model whose right answers are known: users and items in three groups, everybody keeps to the own group."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.ranking import Ranking
from legcf.serving.artifact import ServingModel
from legcf.serving.build import build

GROUPS, USERS, ITEMS, WIDTH = 3, 60, 90, 8


@dataclass
class Toy:
    """Looks like a trained Recommender. Vectors: the leading singular vectors of the training matrix."""

    users: IdMap
    items: IdMap
    titles: list[str] | None
    train: Interactions
    validation: Interactions
    test: Interactions
    known: Interactions
    ranking: Ranking
    card: dict[str, Any] = field(default_factory=dict)


def make_toy(seed: int = 0, text_ids: bool = True) -> Toy:
    rng = np.random.default_rng(seed)
    same = (np.arange(USERS) % GROUPS)[:, None] == (np.arange(ITEMS) % GROUPS)[None]
    users, items = np.nonzero(same & (rng.random((USERS, ITEMS)) < 0.6))
    part = rng.random(len(users))
    pieces = [
        Interactions.from_pairs(users[chosen], items[chosen], USERS, ITEMS)
        for chosen in (part < 0.7, (part >= 0.7) & (part < 0.8), part >= 0.8)
    ]
    dense = np.zeros((USERS, ITEMS))
    dense[pieces[0].users(), pieces[0].items] = 1
    left, sizes, right = np.linalg.svd(dense, full_matrices=False)
    root = np.sqrt(sizes[:WIDTH])
    return Toy(
        IdMap.of([f"u{user}" for user in range(USERS)] if text_ids else np.arange(100, 100 + USERS), "user"),
        IdMap.of([f"i/{item}" for item in range(ITEMS)] if text_ids else np.arange(ITEMS) * 7, "item"),
        [f"Title {item} é" for item in range(ITEMS)],
        *pieces,
        pieces[0],
        Ranking((left[:, :WIDTH] * root).astype(np.float32), (right[:WIDTH].T * root).astype(np.float32), pieces[0]),
        card={"name": "toy", "curve": [{"epoch": 1, "ndcg@20": 0.123456789}], "metrics": {}},
    )


@pytest.fixture(scope="session")
def toy() -> Toy:
    return make_toy()


@pytest.fixture(scope="session")
def model(toy: Toy) -> ServingModel:
    return build(toy, t=3, c=12, validation=toy.validation, quiet=True)


@pytest.fixture(scope="session")
def near_model(toy: Toy) -> ServingModel:
    """The same with what neighbours add, as far spread as the scores themselves."""
    near = replace(toy.ranking, term=Neighbours.of(toy.train).weighing(1.0, toy.ranking))
    return build(replace(toy, ranking=near), t=3, c=12, validation=toy.validation, quiet=True)


@pytest.fixture(scope="session")
def model_file(model: ServingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "toy.legcf"
    model.save(path)
    return path
