# SPDX-License-Identifier: Apache-2.0
"""Check what is added to a ranking, by settings and by an objective."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from legcf.core.config import RankingConfig
from legcf.core.errors import UserError
from legcf.ranking.builder import RankingBuilder, arrays
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from tests.helpers import planted


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    train, rng = planted(40, 30).train, np.random.default_rng(0)
    return Ranking(*(rng.standard_normal((count, 4)).astype(np.float32) for count in (40, 30)), train)


def lightest(ranking: Ranking, trial: dict[str, Any]) -> float:
    return -float(np.log2(trial["weight"] / 0.25) ** 2)


def test_an_objective_chooses_and_the_builder_stays_as_it_was(ranking: Ranking) -> None:
    settings = RankingConfig(lists=4, fit_lists=True)
    builder = RankingBuilder(settings, fitter=ListFitter(ranking.histories))
    built = builder.build(ranking, lightest)
    assert built.config.list_weight == pytest.approx(0.25)
    assert not built.config.fit_lists
    assert builder.config is settings
    again = replace(builder, config=built.config).build(ranking, None)
    assert again.config == built.config
    assert arrays(again.ranking).keys() == arrays(built.ranking).keys()
    for name, array in arrays(again.ranking).items():
        assert np.array_equal(array, arrays(built.ranking)[name])


def test_lists_come_back_from_arrays(ranking: Ranking) -> None:
    built = RankingBuilder(RankingConfig(lists=4)).build(ranking, None)
    assert built.ranking.lists is not None
    assert built.ranking.lists.num_entries == 4 * 30
    restored = RankingBuilder(built.config).from_arrays(ranking, arrays(built.ranking))
    assert restored.lists is not None
    assert built.ranking.lists is not None
    assert np.array_equal(restored.lists.weights, built.ranking.lists.weights)
    assert arrays(ranking) == {}


def test_lists_of_the_method_stand_alone(ranking: Ranking) -> None:
    lists = ListFitter(ranking.histories).lists(RankingConfig(lists=4), 60)
    assert RankingBuilder(RankingConfig(), method_lists=lists).base(ranking).lists is lists
    with pytest.raises(UserError, match="lists of its own"):
        RankingBuilder(RankingConfig(lists=4), method_lists=lists)
