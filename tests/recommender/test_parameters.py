# SPDX-License-Identifier: Apache-2.0
"""A recommender in the loops of scikit-learn."""

from pathlib import Path

import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from legcf import Recommender, UserError
from tests.helpers import planted

FAST = {"preset": "fast", "method_options": {"dim": 8}}


def test_a_clone_has_the_settings_and_no_model() -> None:
    fitted = Recommender(**FAST, seed=3).fit(planted(40, 40))
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert copy.get_params()["method_options__dim"] == 8
    assert "dim" not in copy.get_params(deep=False)
    with pytest.raises(UserError, match="not been fitted"):
        copy.recommend()


def test_a_loaded_model_can_be_trained_again(tmp_path: Path) -> None:
    fitted = Recommender(**FAST, seed=3).fit(planted(40, 40))
    fitted.save(tmp_path)
    again = clone(Recommender.load(tmp_path)).fit(planted(40, 40))
    assert again.metrics["test"] == fitted.metrics["test"]


def test_set_params_is_for_the_next_fit() -> None:
    model = Recommender(**FAST).fit(planted(40, 40))
    before = model.recommend("3", k=5)
    model.set_params(seed=4, method_options__als__alpha=5.0, ranking__popularity_weight=0.5)
    assert model.recommend("3", k=5).equals(before)
    config = model.fit(planted(40, 40)).config
    assert (config.seed, config.ranking.popularity_weight) == (4, 0.5)
    assert config.method.model_dump()["dim"] == 8, "other keys of a section stay"
    assert config.method.model_dump()["als"]["alpha"] == 5.0
    for wrong in ({"colour": 1}, {"seed__x": 1}, {"training__epochs": -1}):
        with pytest.raises(UserError):
            model.set_params(**wrong)
    assert model.get_params()["seed"] == 4


def test_grid_search() -> None:
    pairs = planted(40, 40).known
    frame = pd.DataFrame({"user": pairs.users(), "item": pairs.items})
    search = GridSearchCV(
        Recommender(**FAST), {"method_options__dim": [2, 8]}, cv=KFold(2, shuffle=True, random_state=0)
    )
    search.fit(frame, test_ratio=0.0)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 2
    assert search.best_score_ == max(scores)
    assert search.best_estimator_.recommend(3, k=2).height == 2
