# SPDX-License-Identifier: Apache-2.0
"""Items that nobody has yet: recommended by what is known of them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, UserError
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.scorer import Request, Scorer
from legcf.server.state.event_log import EventLog
from legcf.server.state.log_entries import Described
from tests.helpers import COMMUNITIES
from tests.updating.conftest import ITEMS, Later
from tests.updating.test_update import assert_same

COLD = list(range(ITEMS, 120))


@pytest.fixture(scope="module")
def about() -> pl.DataFrame:
    """The community of an item by two columns; items from 100 on are new."""
    items = np.arange(120)
    kinds = [f"kind {item % COMMUNITIES}|all" for item in items]
    return pl.DataFrame({"item": items, "kind": kinds, "size": (items % COMMUNITIES).astype(float)})


def test_shown_to_those_who_like_such_items(model: Recommender, about: pl.DataFrame) -> None:
    model.update(item_features=about)
    told = model.metrics["updated"]
    assert (told["new_items"], told["items_nobody_has"], told["pairs"]) == (20, 20, 0)
    scores = model.ranking.users @ model.ranking.items[ITEMS:].T
    best = np.array(COLD)[scores.argsort(axis=1)[:, -5:]] % COMMUNITIES
    assert (best == np.arange(len(best))[:, None] % COMMUNITIES).mean() > 0.95
    shown = model.recommend(5, k=5)["item"].to_list()
    assert set(shown) & set(COLD)


def test_pairs_take_over_as_they_come(model: Recommender, later: Later, about: pl.DataFrame) -> None:
    """An item that is said to be of one community and is had by another one."""
    wrong = about.with_columns(
        pl.when(pl.col("item") == ITEMS).then(pl.lit("kind 1|all")).otherwise(pl.col("kind")).alias("kind"),
        pl.when(pl.col("item") == ITEMS).then(1.0).otherwise(pl.col("size")).alias("size"),
    )
    users = model.ranking.users

    def liking(count: int) -> float:
        again = Recommender.of(model.trained)
        pairs = pl.DataFrame({"user": np.arange(count) * COMMUNITIES + 2, "item": np.full(count, ITEMS)})
        again.update(pairs if count else None, item_features=wrong)
        own = users @ again.ranking.items[again.items.find(ITEMS)]
        return float(own[2::COMMUNITIES].mean() - own[1::COMMUNITIES].mean())

    few, some, many = liking(0), liking(3), liking(20)
    assert few < some < many
    assert few < 0 < many


def test_features_are_kept_for_the_next_update(
    model: Recommender, later: Later, about: pl.DataFrame, tmp_path: Path
) -> None:
    at_once = Recommender.of(model.trained).update(later.both, item_features=about)  # without data to judge by
    model.update(item_features=about).save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run").update(later.both)
    assert_same(again.ranking, at_once.ranking)
    assert again.trained.features is not None
    assert again.trained.features.mapping is not None


def test_what_a_server_was_told_of_items_is_taken_in(model: Recommender, about: pl.DataFrame, tmp_path: Path) -> None:
    known, cold = about.filter(pl.col("item") < ITEMS), about.filter(pl.col("item") >= ITEMS)
    told = [
        Described(str(row.pop("item")), row, "Cold" if place == 0 else None, 1.0)
        for place, row in enumerate(cold.to_dicts())
    ]
    EventLog(tmp_path / "log", create=True).write([told])
    with pytest.raises(UserError, match="nothing to do"):  # it learns from no features
        Recommender.of(model.trained).update(events=tmp_path / "log")
    model.update(item_features=known)
    at_once = Recommender.of(model.trained).update(item_features=cold)
    again = Recommender.of(model.trained).update(events=tmp_path / "log")
    assert_same(again.ranking, at_once.ranking)
    with pytest.raises(UserError, match="nothing to do"):
        again.update(events=tmp_path / "log")
    EventLog(tmp_path / "log").write([[Described(str(ITEMS), {"kind": ["kind 1"], "size": 2}, None, 2.0)]])
    assert again.update(events=tmp_path / "log").metrics["events"]["described"] == len(told) + 1


def test_nothing_to_update_with(model: Recommender) -> None:
    with pytest.raises(UserError, match="nothing to update with"):
        model.update()


def test_a_model_file_places_new_items_by_itself(model: Recommender, about: pl.DataFrame, tmp_path: Path) -> None:
    """As the run does that is told of the same items, and within the bytes that the model was to have."""
    known, cold = about.filter(pl.col("item") < ITEMS), about.filter(pl.col("item") >= ITEMS)
    served = build(model.update(item_features=known).trained, ExportOptions(history=False))
    parts = served.save(tmp_path / "model.legcf")
    assert 0 < parts["features"] < 2000
    assert (tmp_path / "model.legcf").stat().st_size < 20_000 + parts["ids"]
    longer = ServedModel.load(tmp_path / "model.legcf")
    longer = with_new_items(longer, [NewItem.of(longer, str(row.pop("item")), row) for row in cold.to_dicts()])
    scorer = Scorer(longer)
    asked = Request(items=[item for item in range(ITEMS) if item % COMMUNITIES == 3][:8], k=3, allow=COLD)
    assert {int(one.id) % COMMUNITIES for one in scorer.recommend(asked)} == {3}
    by_run = model.update(item_features=cold).ranking.items[ITEMS:]
    by_file = longer.item_rows.vectors(slice(ITEMS, None))
    lengths = np.linalg.norm(by_run, axis=1) * np.linalg.norm(by_file, axis=1)
    assert np.median((by_run * by_file).sum(axis=1) / lengths) > 0.9


def test_a_file_says_what_it_cannot_place_by(model: Recommender, about: pl.DataFrame) -> None:
    plain = build(model.trained)
    with pytest.raises(UserError, match="--item-features"):
        NewItem.of(plain, "500", {"kind": "kind 1"})
    served = build(model.update(item_features=about).trained)
    with pytest.raises(UserError, match="'colour': the model knows kind, size"):
        NewItem.of(served, "500", {"colour": "red"})
    with pytest.raises(UserError, match="give it a feature"):
        NewItem.of(served, "500", {"kind": None})
