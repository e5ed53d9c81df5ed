# SPDX-License-Identifier: Apache-2.0
"""The order of a history: later items count more, in a run, in its file and in requests."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.data.source import DataOptions, load_data
from legcf.evaluation.weights import HALF_LIVES
from legcf.export.evaluate import evaluate_file
from legcf.ranking.recency import recent, recent_profile
from legcf.recommender import Recommender
from legcf.scoring.scorer import Request, Scorer

GROUPS, GROUP, STEPS = 6, 20, 24
SPLIT = DataOptions(protocol="leave-last-out")


def log(drifts: bool, seed: int = 0) -> pl.DataFrame:
    """Return users whose taste is one group of items, then another (or always both in turn)."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(150):
        first, second = rng.choice(GROUPS, 2, replace=False)
        drawn = {group: iter(rng.permutation(GROUP)) for group in (first, second)}
        for step in range(STEPS):
            group = (first if step < STEPS // 2 else second) if drifts else (first, second)[int(rng.integers(2))]
            number = next(drawn[group], None)
            if number is not None:
                rows.append((user, int(group * GROUP + number), 1000 * step + user + 1))
    return pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")


def model(half_life: float | str | None) -> Recommender:
    ranking = {"bytes": 20_000, "bits": 4, "lists": None, "half_life_items": half_life}
    return Recommender("full", preset="items", method_options={"dim": 8}, ranking=ranking)


def test_weights_halve_from_the_last_item() -> None:
    table = pl.DataFrame({"user": [1, 1, 1, 2], "item": [5, 6, 7, 7], "time": [30, 10, 20, 5]})
    dataset = load_data(table, DataOptions(time_col="time"))
    assert dataset.order is not None
    assert dataset.order.weights is not None
    assert dataset.order.weights.tolist() == [2, 0, 1, 0]
    weighed = recent(dataset.known, dataset.order, 1.0).weights
    assert weighed is not None
    assert weighed.tolist() == [1, 0.25, 0.5, 1]
    first = Interactions.from_pairs(np.array([0, 0]), np.array([1, 2]), 2, 3)
    assert recent(first, dataset.order, 1.0).weights.tolist() == [0.5, 1]  # type: ignore[union-attr]
    assert dataset.of_users(np.array([1])).order.weights.tolist() == [0]  # type: ignore[union-attr]
    assert load_data(table, DataOptions(protocol="ratio")).order is None


def test_a_request_follows_what_is_known() -> None:
    items, relative = recent_profile(np.array([2, 5]), np.array([0.5, 1.0]), np.array([9, 2, 4, 9]), 1.0)
    assert items.tolist() == [2, 4, 5, 9]  # known 5, then 2 again, 4, 9
    assert np.allclose(relative / relative.max(), [0.25, 0.5, 0.125, 1])
    assert relative.mean() == pytest.approx(1)


def test_validation_finds_a_taste_that_drifts_and_no_other() -> None:
    plain, chosen = (model(half_life).fit(log(True), protocol="leave-last-out") for half_life in (None, "auto"))
    assert chosen.config.ranking.half_life_items in HALF_LIVES
    assert chosen.metrics["test"]["ndcg@20"] > 1.1 * plain.metrics["test"]["ndcg@20"]
    steady = model("auto").fit(log(False), protocol="ratio", time_col="time")
    assert steady.config.ranking.half_life_items is None
    assert steady.ranking.histories.weights is None


def test_run_file_and_requests_agree(tmp_path: Path) -> None:
    trained = model(5.0).fit(log(True), protocol="leave-last-out")
    trained.save(tmp_path / "run")
    loaded = Recommender.load(tmp_path / "run")
    assert np.array_equal(loaded.ranking.users, trained.ranking.users)
    assert loaded.recommend([3], k=5).equals(trained.recommend([3], k=5))
    measured = trained.export(tmp_path / "model.legcf", history=True).accuracy["test"]
    assert measured["ndcg@20"]["after"] == pytest.approx(measured["ndcg@20"]["before"], rel=0.02)
    trained.export(tmp_path / "new.legcf", history=False)
    alone = evaluate_file(Scorer.load(tmp_path / "new.legcf").model, load_data(log(True), SPLIT), [20])
    assert alone["ndcg@20"] == pytest.approx(trained.metrics["test"]["ndcg@20"], rel=0.02)
    scorer = Scorer.load(tmp_path / "model.legcf")
    history = log(True).filter(pl.col("user") == 3).sort("time")["item"].to_list()
    by_id, by_items = (scorer.recommend(Request(**ask, k=5)) for ask in ({"user": 3}, {"items": history}))
    assert [entry.id for entry in by_id] == loaded.recommend([3], k=5)["item"].to_list()
    assert [entry.id for entry in by_items] == [entry.id for entry in by_id]
    assert [entry.score for entry in by_items] == pytest.approx([entry.score for entry in by_id], rel=0.02)
    backwards = scorer.recommend(Request(items=history[::-1], k=5))
    assert [entry.id for entry in backwards] != [entry.id for entry in by_items]
    with pytest.raises(UserError, match="half_life_items cannot be updated"):
        loaded.update(pl.DataFrame({"user": [3], "item": [0]}))


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(UserError, match="needs times"):
        model(5.0).fit(log(True), protocol="ratio")
    with pytest.raises(UserError, match="does not go with weights"):
        model("auto").fit(log(True), protocol="temporal", weight_col="time")
    with pytest.raises(UserError, match="above 0"):
        model(-1.0).fit(log(True))
