"""Items that nobody has yet: recommended by what is known of them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, UserError
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
    at_once = Recommender.of(model.trained).update(later.both, item_features=about)
    model.update(item_features=about).save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run").update(later.both)
    assert_same(again.ranking, at_once.ranking)
    assert again.trained.features is not None
    assert again.trained.features.mapping is not None


def test_nothing_to_update_with(model: Recommender) -> None:
    with pytest.raises(UserError, match="nothing to update with"):
        model.update()
