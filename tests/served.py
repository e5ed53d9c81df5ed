# SPDX-License-Identifier: Apache-2.0
"""A toy model whose right answers are known: users and items in three groups, everybody keeps to the own group."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.features.coder import FeatureCoder, FeatureColumn
from legcf.features.encoder import FeatureEncoder, FeatureMap
from legcf.modelfile.attributes import Attributes, TextColumn
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.item_lists.ridge import nearest_lists
from legcf.ranking.ranking import Ranking

# What ids of a shop may look like, at worst: each must work in every route.
ODD = ("..", ".", "a\nb", "/", "a//b/../c", "é ☕ 日本 \u202e", "100% +1?#&=", "<b>'\"\\")
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
    encoder: FeatureEncoder | None = None
    user_encoder: FeatureEncoder | None = None


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
def model(toy: Toy) -> ServedModel:
    return build(toy, ExportOptions(t=3, c=12), toy.validation)


@pytest.fixture(scope="session")
def listed_model(toy: Toy) -> ServedModel:
    """The same with item lists: for each item those most like it."""
    listed = replace(toy.ranking, lists=nearest_lists(toy.train, 20, 1.0))
    return build(replace(toy, ranking=listed), ExportOptions(t=3, c=12), toy.validation)


@pytest.fixture(scope="session")
def model_file(model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "toy.legcf"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def encoder(model: ServedModel) -> FeatureEncoder:
    """The group of an item by its kind: the mean vector of the group."""
    column = FeatureColumn("kind", "category", width=64)
    vectors = model.item_rows.vectors(slice(None))
    matrix = np.zeros((64, vectors.shape[1]), dtype=np.float32)
    for group in range(GROUPS):
        (place,), (sign,) = FeatureCoder((column,)).row({"kind": f"group {group}"})
        matrix[place] = sign * vectors[group::GROUPS].mean(axis=0)
    return FeatureEncoder(FeatureCoder((column,)), FeatureMap(matrix, np.zeros(vectors.shape[1], dtype=np.float32)))


@pytest.fixture(scope="session")
def placing_file(model: ServedModel, encoder: FeatureEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that places new items by their kind."""
    path = tmp_path_factory.mktemp("placing") / "toy.legcf"
    replace(model, encoder=encoder).save(path)
    return path


@pytest.fixture(scope="session")
def odd_model(listed_model: ServedModel) -> ServedModel:
    """The model with item lists, its last users and items under odd ids."""
    assert listed_model.users is not None
    users, items = (
        IdMap.of([*ids.values.tolist()[: -len(ODD)], *ODD], ids.kind)
        for ids in (listed_model.users, listed_model.items)
    )
    return replace(listed_model, users=users, items=items)


@contextmanager
def serving(model: ServedModel, path: Path, **settings: Any) -> Iterator[str]:
    """A server as `legcf serve` runs it, but in a thread; gives its address."""
    import uvicorn

    from legcf.server.app import Settings, create_app
    from legcf.server.workers import server_options

    model.save(path)
    app = create_app(Settings(str(path), access_log=False, **settings))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", **server_options()))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def base(odd_model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The one server that the tests of a session share."""
    with serving(odd_model, tmp_path_factory.mktemp("served") / "toy.legcf") as address:
        yield address


def values_of(attributes: Attributes, item: int) -> dict[str, list[Any]]:
    """The values that an item has of each attribute, none, one or several."""
    found: dict[str, list[Any]] = {}
    for name, column in attributes.columns.items():
        levels = column.values if isinstance(column, TextColumn) else [None, *column.levels.tolist()]
        found[name] = [levels[key] for key in column.keys(item)]
    return found
