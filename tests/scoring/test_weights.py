# SPDX-License-Identifier: Apache-2.0
"""Pairs that count more than others, in a model file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, Request, Scorer, UserError
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.modelfile.histories import PackedHistories, PackedWeights
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.explain import explain
from tests.helpers import planted
from tests.updating.conftest import MODELS


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """Who has what how often, a few things very often."""
    train = planted(80, 60).train
    plays = np.random.default_rng(3).zipf(1.6, train.num_pairs).clip(max=5000)
    return pl.DataFrame({"user": train.users(), "item": train.items, "plays": plays})


@pytest.fixture(scope="module", params=list(MODELS))
def weighed(request: pytest.FixtureRequest, frame: pl.DataFrame) -> Recommender:
    return MODELS[request.param]().fit(frame, weight_col="plays", protocol="ratio")


def test_a_file_ranks_as_the_model_does(weighed: Recommender, tmp_path: Path) -> None:
    build(weighed.trained, ExportOptions(users="history")).save(tmp_path / "model.legcf")
    scorer = Scorer.load(tmp_path / "model.legcf")
    known = weighed.full_history_ranking
    wanted = known.users @ known.items.T
    if known.lists is not None:
        known.lists.add_for(wanted, known.histories)
    users = weighed.users.values.tolist()
    found = np.array([scorer.scores(scorer.profile(Request(user=user))) for user in users])
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    alike = Scorer(replace(scorer.model, history=PackedHistories.of(replace(known.histories, weights=None))))
    without = np.array([alike.scores(alike.profile(Request(user=user))) for user in users])
    assert np.abs(found - wanted).mean() < 0.2 * np.abs(without - wanted).mean()
    for compiled in (False, True):
        everyone, scores = scorer.recommend_all(5, compiled=compiled)
        single = [[one.score for one in scorer.recommend(Request(user=user, k=5))] for user in users]
        assert np.allclose(scores, single, rtol=1e-4, atol=1e-5)
        assert everyone.shape == (len(users), 5)


def test_parts_of_a_score_sum_up_and_news_count_as_usual(weighed: Recommender) -> None:
    scorer = Scorer(build(weighed.trained, ExportOptions(users="history")))
    user = weighed.users.values.tolist()[3]
    taste = scorer.profile(Request(user=user))
    assert taste.relative is not None
    assert taste.relative.mean() == pytest.approx(1, abs=1e-5)
    (why,) = explain(scorer, taste, [7])
    assert why.score == pytest.approx(float(scorer.scores(taste)[7]), rel=1e-3, abs=1e-4)
    new = next(item for item in range(60) if item not in set(taste.history.tolist()))
    later = scorer.profile(Request(user=user, items=weighed.items.external([new])))
    assert later.relative is not None
    assert later.relative[later.history.tolist().index(new)] == 1
    assert np.array_equal(np.delete(later.relative, later.history.tolist().index(new)), taste.relative)
    assert scorer.profile(Request(items=weighed.items.external([new]))).relative is None


def test_few_values_come_back_as_they_were_and_many_nearly() -> None:
    ratings = np.random.default_rng(1).integers(1, 6, 500).astype(np.float32)
    packed = PackedWeights.of(ratings)
    assert np.allclose(packed.some(0, 500), ratings, rtol=1e-6)
    assert len(packed.codes.packed) == (500 * 3 + 7) // 8
    decayed = (0.5 ** np.random.default_rng(2).uniform(0, 20, 5000)).astype(np.float32)
    assert np.abs(PackedWeights.of(decayed).some(0, 5000) / decayed - 1).max() < 0.1


def test_wrong_weights_are_refused(weighed: Recommender, tmp_path: Path) -> None:
    served = build(weighed.trained, ExportOptions(users="history"))
    assert served.history is not None
    assert served.history.weights is not None
    for levels in (np.array([-1.0, 2.0]), np.array([np.nan, 1.0]), np.ones(1)):
        wrong = PackedWeights(served.history.weights.codes, levels.astype(np.float32))
        replace(served, history=replace(served.history, weights=wrong)).save(tmp_path / "wrong.legcf")
        with pytest.raises(UserError, match="damaged"):
            ServedModel.load(tmp_path / "wrong.legcf")
