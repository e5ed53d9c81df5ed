# SPDX-License-Identifier: Apache-2.0
"""One model of each kind, trained on most of some planted pairs; the rest comes later."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.recommender import Recommender
from tests.helpers import planted

USERS, ITEMS = 120, 100  # of 150 and 120: the others are new
QUICK = {"epochs": 1, "batch_size": 400, "threads": 1}
MODELS = {
    "codes": lambda: Recommender(
        method_options={"c": 12, "dim": 16}, training=QUICK, ranking={"bytes": 20_000, "search_representation": False}
    ),
    "table": lambda: Recommender(
        "full",
        preset="items",
        method_options={"dim": 16},
        training={"threads": 1},
        ranking={"bytes": 20_000, "bits": 4, "lists": None},
    ),
}


@dataclass(frozen=True, eq=False)
class Later:
    """Data at first, what comes in two parts later, and all of it."""

    first: Dataset
    one: pl.DataFrame
    two: pl.DataFrame
    whole: Dataset

    @property
    def both(self) -> pl.DataFrame:
        return pl.concat([self.one, self.two])


@pytest.fixture(scope="session")
def later() -> Later:
    whole = planted(150, 120)
    rng = np.random.default_rng(5)
    users, items = whole.train.users(), whole.train.items
    is_new = (users >= USERS) | (items >= ITEMS) | (rng.random(len(users)) < 0.08)

    def part(pairs: Interactions, kept: np.ndarray | None = None) -> Interactions:
        inside = (pairs.users() < USERS) & (pairs.items < ITEMS) & (True if kept is None else kept)
        return Interactions.from_pairs(pairs.users()[inside], pairs.items[inside], USERS, ITEMS)

    first = replace(
        whole,
        users=IdMap.consecutive(USERS, "user"),
        items=IdMap.consecutive(ITEMS, "item"),
        train=part(whole.train, ~is_new),
        validation=part(whole.validation),
        test=part(whole.test),
    )
    frame = pl.DataFrame({"user": users[is_new], "item": items[is_new]}).sample(fraction=1.0, shuffle=True, seed=1)
    half = frame.height // 2
    return Later(first, frame[:half], frame[half:], whole)


@pytest.fixture(scope="session", params=list(MODELS))
def trained(request: pytest.FixtureRequest, later: Later) -> Recommender:
    return MODELS[request.param]().fit(later.first)


@pytest.fixture
def model(trained: Recommender, later: Later) -> Recommender:
    """To be updated: the trained one stays as it is."""
    return twin(trained, later)


def twin(one: Recommender, later: Later) -> Recommender:
    """Another recommender of the same model, with the data that it was trained on at hand."""
    again = Recommender.of(one.trained)
    again._first = again._dataset = later.first
    return again
