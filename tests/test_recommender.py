"""What a Python user does: fit, evaluate, recommend, similar items, save, load, with the ids that went in."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset
from tests.helpers import COMMUNITIES, planted

SMALL = {"c": 8, "d": 8}
QUICK = {"epochs": 2, "batch_size": 200}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    plain = planted(40, 40)
    return Dataset(
        "named",
        "ratio",
        IdMap.of([f"user {number}" for number in range(40)], "user"),
        IdMap.of([f"ïtem {number}" for number in range(40)], "item"),
        plain.train,
        plain.validation,
        plain.test,
        titles=[f"Title {number}" for number in range(40)],
    )


@pytest.fixture(scope="module")
def fitted(dataset: Dataset) -> Recommender:
    return Recommender(preset="paper", method_options=SMALL, training=QUICK).fit(dataset)


def test_recommends_with_the_ids_that_went_in(fitted: Recommender, dataset: Dataset) -> None:
    frame = fitted.recommend(["user 3", "user 30"], k=4)
    assert frame.columns == ["user", "rank", "item", "score", "title"]
    assert frame["user"].to_list() == ["user 3"] * 4 + ["user 30"] * 4
    assert all(item.startswith("ïtem ") for item in frame["item"])
    assert [title.removeprefix("Title ") for title in frame["title"]] == [item[5:] for item in frame["item"]]
    seen = {f"ïtem {item}" for item in dataset.known.of(3)}
    assert not seen & set(frame.filter(pl.col("user") == "user 3")["item"])
    assert fitted.recommend("user 3", k=4)["item"].equals(frame.head(4)["item"])


def test_all_users_and_lists_no_longer_than_there_are_items(fitted: Recommender, dataset: Dataset) -> None:
    frame = fitted.recommend(k=1000)
    assert frame.height == 40 * 40 - dataset.known.num_pairs
    assert fitted.recommend("user 1", k=1000, exclude_seen=False).height == 40


def test_scores_are_inner_products_in_order(fitted: Recommender) -> None:
    frame = fitted.recommend("user 5", k=6)
    places = fitted.items.positions(frame["item"])
    assert np.allclose(frame["score"], fitted.ranking.items[places] @ fitted.ranking.users[5], atol=1e-5)
    assert frame["score"].is_sorted(descending=True)


def test_similar_items_leave_the_item_itself_out(fitted: Recommender) -> None:
    frame = fitted.similar_items(["ïtem 0", "ïtem 9"], k=3)
    assert frame["to"].to_list() == ["ïtem 0"] * 3 + ["ïtem 9"] * 3
    assert not (frame["to"] == frame["item"]).any()
    assert (frame["score"] <= 1 + 1e-5).all()


def test_comes_back_from_disk(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = Recommender.load(tmp_path / "model")
    assert np.allclose(loaded.ranking.users, fitted.ranking.users, atol=1e-5)
    assert np.allclose(loaded.ranking.items, fitted.ranking.items, atol=1e-5)
    again = Recommender.load(tmp_path / "model")
    assert again.recommend(k=5).equals(loaded.recommend(k=5))
    assert loaded.titles == fitted.titles
    assert loaded.metrics == fitted.metrics
    assert loaded.config == fitted.config
    assert loaded.ranking.meta is not None
    assert np.allclose(loaded.ranking.meta, fitted.ranking.meta, atol=1e-5)
    assert loaded.trained.card["num_params"] == 8 * 8 + 2 * 80
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "model.safetensors"}


def test_evaluates_what_training_reported(fitted: Recommender) -> None:
    assert fitted.evaluate() == pytest.approx(fitted.metrics["test"])
    assert set(fitted.evaluate("validation", ks=[7])) >= {"recall@7", "coverage@7"}


def test_the_seed_decides(dataset: Dataset, fitted: Recommender) -> None:
    again, other = (
        Recommender(preset="paper", seed=seed, method_options=SMALL, training=QUICK).fit(dataset) for seed in (0, 1)
    )
    assert np.array_equal(again.ranking.users, fitted.ranking.users)
    assert not np.array_equal(other.ranking.users, fitted.ranking.users)


def test_a_frame_will_do() -> None:
    plain = planted(40, 40)
    frame = pl.DataFrame({"user": [f"u{user}" for user in plain.train.users()], "item": plain.train.items})
    fitted = Recommender(method_options=SMALL, training=QUICK, preset="paper").fit(frame)
    assert set(fitted.recommend("u4", k=3)["user"]) == {"u4"}


def test_refusals(fitted: Recommender, dataset: Dataset) -> None:
    with pytest.raises(UserError, match="not been fitted"):
        Recommender().recommend(1)
    with pytest.raises(UserError, match="Unknown user id 'nobody'"):
        fitted.recommend("nobody")
    with pytest.raises(UserError, match="at least 1"):
        fitted.recommend("user 1", k=0)
    with pytest.raises(UserError, match="at least 1"):
        fitted.similar_items("ïtem 1", k=0)
    with pytest.raises(UserError, match="Unknown item"):
        fitted.similar_items("ïtem 1000")
    with pytest.raises(UserError, match="test or validation"):
        fitted.evaluate("train")
    with pytest.raises(UserError, match="start at 1"):
        fitted.evaluate(ks=[0])
    with pytest.raises(UserError, match="usr_col"):
        Recommender().fit("x.csv", usr_col="a")
    nothing = planted(40, 40, cold=40)
    with pytest.raises(UserError, match="no training pairs"):
        Recommender(preset="paper", method_options=SMALL).fit(nothing)


def test_communities_are_what_similar_items_find(dataset: Dataset) -> None:
    trained = Recommender(method="full", preset="default", training={"epochs": 15, "batch_size": 100}).fit(dataset)
    frame = trained.similar_items("ïtem 6", k=5)
    assert {int(item[5:]) % COMMUNITIES for item in frame["item"]} == {6 % COMMUNITIES}
