# SPDX-License-Identifier: Apache-2.0
"""What popularity and item-knn reach, as the methods of these names do; and how it is said."""

from dataclasses import replace

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.baselines.compare import baselines, comparison
from legcf.recommender import Recommender
from tests.helpers import planted


def test_they_are_what_the_methods_reach() -> None:
    dataset = planted(40, 40)
    found = baselines(dataset)
    assert found.keys() == {"popularity", "item-knn"}
    for name, score in found.items():
        assert score == pytest.approx(Recommender(name).fit(dataset).metrics["test"]["ndcg@20"], abs=1e-6)


def test_what_would_take_long_is_left_out_unless_it_is_wanted() -> None:
    many = 60_000
    train = Interactions.from_pairs(np.arange(many), np.arange(many) % 10, many, many)
    users, items = IdMap.consecutive(many), IdMap.consecutive(many)
    dataset = Dataset("many", "ratio", users, items, train, Interactions.empty(many, many), train)
    assert baselines(dataset) == {}
    few = train.subset(np.arange(many) < 20)
    assert len(baselines(replace(dataset, validation=few, test=few), anyway=True)) == 2


def test_it_is_a_sentence() -> None:
    line = comparison(0.11, {"popularity": 0.04, "item-knn": 0.10})
    assert line == "10 % above item-knn (0.1000) and 175 % above popularity (0.0400) in test ndcg@20."
    assert comparison(0.09, {"item-knn": 0.10}).startswith("10 % below item-knn")
    assert comparison(0.0, {"popularity": 0.0}).startswith("no better than popularity")
