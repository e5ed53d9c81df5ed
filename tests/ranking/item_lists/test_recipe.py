# SPDX-License-Identifier: Apache-2.0
"""Settings of item lists: the defaults, unless something else is clearly better."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from legcf.core.config import RankingConfig
from legcf.ranking import selection_policy
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from tests.helpers import planted


@pytest.mark.parametrize(("gain", "ridge", "user_power"), [(1.005, 1.0, 0.5), (1.02, 4.0, 0.0)])
def test_another_ridge_or_power_has_to_be_clearly_better(gain: float, ridge: float, user_power: float) -> None:
    train = planted(40, 30).train
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((count, 4)).astype(np.float32) for count in (train.num_users, train.num_items)]

    def judge(ranking: Ranking, facts: dict[str, Any]) -> float:
        gains = (facts["ridge"] == 4.0) + (facts["powers"][0] == 0.0)
        return 0.1 * gain ** int(gains) - 1e-6 * abs(facts["weight"] - 0.25)

    fitter = ListFitter(train)
    found = fitter.settings(Ranking(*vectors, train), RankingConfig(lists=4), judge)
    assert (found.list_ridge, found.list_user_power, found.list_power) == (ridge, user_power, 0.0)
    assert found.list_weight == 0.25


def test_room_for_more_than_all_candidates_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_policy, "SMALL", replace(selection_policy.SMALL, list_candidates=4))
    train = planted(80, 30, seed=1).train
    fitter, config = ListFitter(train), RankingConfig(lists=4)
    assert fitter.lists(config, 3 * train.num_items).num_entries == 3 * train.num_items
    assert fitter.lists(config, 6 * train.num_items).num_entries == 6 * train.num_items


def test_ridges_go_on_while_the_largest_is_best() -> None:
    train = planted(40, 30).train
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((count, 4)).astype(np.float32) for count in (train.num_users, train.num_items)]

    def judge(ranking: Ranking, facts: dict[str, Any]) -> float:
        return float(min(facts["ridge"], 32.0)) - 1e-6 * abs(facts["weight"] - 0.25)

    assert ListFitter(train).settings(Ranking(*vectors, train), RankingConfig(lists=4), judge).list_ridge == 32.0
