# SPDX-License-Identifier: Apache-2.0
"""What a Python user does: fit, evaluate, recommend, similar items, save, load, with the ids that went in."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.export.build import build
from legcf.scoring.scorer import Request, Scorer
from tests.helpers import COMMUNITIES, planted

SMALL = {"c": 8, "dim": 8}
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
    assert frame.columns == ["user", "rank", "item", "score", "title", "fallback"]
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


@pytest.mark.parametrize("denies", [False, True])
def test_pages_and_impressions(fitted: Recommender, denies: bool) -> None:
    user = fitted.users.external([3])[0]
    asked: dict[str, Any] = {"deny": fitted.items.external([1])} if denies else {}
    whole = fitted.recommend(user, k=9, **asked)
    pages = [fitted.recommend(user, k=3, offset=offset, **asked) for offset in (0, 3, 6)]
    assert pl.concat(pages).select("rank", "item").equals(whole.select("rank", "item"))
    first, second = whole["item"].to_list()[:2]
    assert fitted.recommend(user, k=1, shown={first: 4}, max_shown=4, **asked)["item"].to_list() == [second]
    assert first not in fitted.recommend(user, k=1, shown={first: 40}, damping=0.5, **asked)["item"].to_list()
    assert fitted.recommend(user, k=1, shown={first: 4}, **asked)["item"].to_list() == [first]


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
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "answers.legcf",
        "model.json",
        "model.safetensors",
    }


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


def test_strangers_are_shown_what_is_popular_and_counted(tmp_path: Path) -> None:
    cold = planted(40, 40, cold=2)
    test = np.vstack([np.stack([cold.test.users(), cold.test.items]).T, [[38, 3]]])
    parts = Interactions.from_pairs(test[:, 0], test[:, 1], 40, 40)
    fitted = Recommender("full", training={"epochs": 1}).fit(replace(cold, test=parts))
    assert fitted.metrics["test"]["fallback_users"] == fitted.evaluate()["fallback_users"] == 1
    assert fitted.metrics["validation"]["fallback_users"] == 0
    frame = fitted.recommend([39, 2, 77], k=5, unknown="popular")
    marks = frame.group_by("user", maintain_order=True).agg(pl.col("fallback").first())
    assert marks.rows() == [(39, "popular"), (2, None), (77, "popular")]
    assert frame.filter(pl.col("user") == 39)["item"].equals(frame.filter(pl.col("user") == 77)["item"])
    most = np.sort(cold.train.item_degrees)[::-1][:5]
    assert frame.filter(pl.col("user") == 77)["score"].to_list() == most.tolist()
    build(fitted.trained).save(tmp_path / "model.legcf")
    scorer = Scorer.load(tmp_path / "model.legcf")
    assert [entry.fallback for entry in scorer.recommend(Request(user=39, k=2))] == ["popular"] * 2
    assert {entry.fallback for entry in scorer.recommend(Request(user=2, k=2))} == {None}
    assert [entry.id for entry in scorer.recommend(Request(k=5))] == frame.filter(pl.col("user") == 77)[
        "item"
    ].to_list()


def test_measured_by_data_of_ones_own(fitted: Recommender, dataset: Dataset, tmp_path: Path) -> None:
    assert fitted.evaluate(dataset)["ndcg@20"] == pytest.approx(fitted.metrics["test"]["ndcg@20"])
    pairs = [
        (f"user {user}", f"ïtem {item}") for user, item in zip(dataset.test.users(), dataset.test.items, strict=True)
    ]
    pairs += [("user 0", "new"), ("stranger", "ïtem 1"), ("user 3", f"ïtem {dataset.train.of(3)[0]}")]
    frame = pl.DataFrame(pairs, schema=["customer", "product"], orient="row")
    found = fitted.evaluate(frame, user_col="customer", item_col="product")
    assert found["ndcg@20"] == pytest.approx(fitted.metrics["test"]["ndcg@20"])
    told = {name: found[name] for name in ("unknown_users", "unknown_items", "unknown_pairs", "trained_pairs", "pairs")}
    assert told == {
        "unknown_users": 1,
        "unknown_items": 1,
        "unknown_pairs": 2,
        "trained_pairs": 1,
        "pairs": dataset.test.num_pairs,
    }
    frame.write_csv(tmp_path / "new.csv")
    again = fitted.evaluate(tmp_path / "new.csv", ks=[20], user_col="customer", item_col="product")
    assert again["ndcg@20"] == found["ndcg@20"]
    with pytest.raises(UserError, match="no pair to measure"):
        fitted.evaluate(frame.tail(3), user_col="customer", item_col="product")


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda model: model.recommend(1.5), r"1\.5 is not the id of a user"),
        (lambda model: model.recommend([None]), "None is not the id of a user"),
        (lambda model: model.recommend(b"user 1"), "is not the id of a user"),
        (lambda model: model.recommend("user 1", k="5"), "whole number such as 10, not '5'"),
        (lambda model: model.recommend("user 1", k=True), "whole number such as 10, not True"),
        (lambda model: model.recommend("user 1", k=2.0), "whole number such as 10, not 2.0"),
        (lambda model: model.recommend("user 1", offset=-1), "The offset is -1, and must be at least 0"),
        (lambda model: model.similar_items(1.5), r"1\.5 is not the id of an item"),
        (lambda model: model.similar_items("ïtem 1", k=None), "whole number such as 10, not None"),
        (lambda model: model.evaluate(ks=20), r"a list such as \[10, 20\], not 20"),
        (lambda model: model.evaluate(ks=["20"]), "whole number such as 10, not '20'"),
        (lambda model: model.evaluate(ks=[]), "at least one"),
        (lambda model: model.evaluate(3), "type int cannot be read"),
        (lambda model: Recommender().fit([("a", "b")]), "polars.DataFrame"),
        (lambda model: Recommender().fit(None), "NoneType cannot be read"),
    ],
)
def test_wrong_types_get_a_sentence(call: Callable[[Recommender], object], complaint: str, fitted: Recommender) -> None:
    with pytest.raises(UserError, match=complaint):
        call(fitted)


def test_ids_of_numpy_and_polars(fitted: Recommender) -> None:
    wanted = fitted.recommend(["user 3", "user 5"], k=np.int64(3))
    assert fitted.recommend(np.array(["user 3", "user 5"]), k=3).equals(wanted)
    assert fitted.recommend(pl.Series(["user 3", "user 5"]), k=3).equals(wanted)


def test_nothing_to_measure(dataset: Dataset) -> None:
    nothing = Interactions.empty(40, 40)
    bare = replace(dataset, validation=nothing, test=nothing)
    fitted = Recommender(preset="paper", method_options=SMALL, training=QUICK).fit(bare)
    with pytest.raises(UserError, match="no test pairs"):
        fitted.evaluate()
    with pytest.raises(UserError, match="no validation pairs"):
        fitted.evaluate("validation")


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
    with pytest.raises(UserError, match="error or popular"):
        fitted.recommend("user 1", unknown="random")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1"):
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


@pytest.fixture(scope="module")
def pooled(dataset: Dataset) -> Recommender:
    """Users are their histories, and lists add to scores."""
    return Recommender(
        method_options={"c": 8, "dim": 8}, training={"epochs": 1}, ranking={"search_representation": False}
    ).fit(dataset)


ATTRIBUTES = pl.DataFrame({"item": [f"ïtem {one}" for one in range(40)], "parity": ["even", "odd"] * 20})


@pytest.mark.parametrize("model", ["fitted", "pooled"])
class TestRules:
    """`recommend` answers as a file of the model does."""

    def test_answers_are_those_of_the_file(self, model: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        recommender: Recommender = request.getfixturevalue(model)
        users = "history" if model == "pooled" else "coded"
        report = recommender.export(tmp_path / "model.legcf", format="full", users=users, items=ATTRIBUTES)
        assert report.bytes == (tmp_path / "model.legcf").stat().st_size
        scorer = Scorer.load(tmp_path / "model.legcf")
        recommender.describe_items(ATTRIBUTES)
        denied, allowed = ["ïtem 3"], [f"ïtem {one}" for one in range(20)]
        for rules in (
            {"items": ["ïtem 7", "ïtem 9"]}, {"deny": denied}, {"allow": allowed}, {"filter": {"parity": "odd"}},
            {"items": ["ïtem 7"], "allow": allowed, "deny": denied, "filter": {"parity": ["odd"]}},
        ):  # fmt: skip
            for user in ("user 4", *([None] if "items" in rules else [])):
                frame = recommender.recommend(user, k=5, **rules)
                expected = scorer.recommend(Request(user=user, k=5, **rules))
                assert frame["item"].to_list() == [one.id for one in expected]
                assert np.allclose(frame["score"], [one.score for one in expected], atol=1e-5)
                assert frame["user"].to_list() == [user] * len(expected)

    def test_rules_that_forbid_nothing_change_nothing(self, model: str, request: pytest.FixtureRequest) -> None:
        recommender: Recommender = request.getfixturevalue(model)
        everything = recommender.items.values.tolist()
        plain, ruled = recommender.recommend(k=4), recommender.recommend(k=4, allow=everything)
        assert ruled.drop("score").equals(plain.drop("score"))
        assert np.allclose(ruled["score"], plain["score"], atol=1e-5)

    def test_similar_users(self, model: str, request: pytest.FixtureRequest) -> None:
        recommender: Recommender = request.getfixturevalue(model)
        frame = recommender.similar_users(["user 3", "user 4"], k=3)
        assert frame.columns == ["to", "rank", "user", "score"]
        assert frame["to"].to_list() == ["user 3"] * 3 + ["user 4"] * 3
        assert not (frame["to"] == frame["user"]).any()
        vectors = recommender.full_history_ranking.users
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = unit @ unit[3]
        assert np.allclose(frame["score"][:3], np.sort(np.delete(cosines, 3))[::-1][:3], atol=1e-5)
        assert recommender.similar_users("user 3", k=1000).height == 39


def test_a_file_has_the_attributes_that_were_described(fitted: Recommender, tmp_path: Path) -> None:
    fitted.describe_items(ATTRIBUTES, ["parity"]).export(tmp_path / "model.legcf")
    found = Scorer.load(tmp_path / "model.legcf").recommend(Request(user="user 1", filter={"parity": "even"}))
    assert found
    assert all(int(str(one.id).split()[1]) % 2 == 0 for one in found)


def test_rules_that_cannot_be(fitted: Recommender, dataset: Dataset, tmp_path: Path) -> None:
    loaded = Recommender.of(fitted.trained)
    with pytest.raises(UserError, match=r"Unknown item id 'nothing'"):
        loaded.recommend("user 1", deny="nothing")
    with pytest.raises(UserError, match="nothing of its items to filter by"):
        loaded.recommend("user 1", filter={"parity": "odd"})
    with pytest.raises(UserError, match="no column 'colour'"):
        loaded.describe_items(ATTRIBUTES, ["colour"])
    with pytest.raises(UserError, match=r"format = 'onnx' is not possible"):
        loaded.export(tmp_path / "model.legcf", format="onnx")


def test_a_final_model_with_item_features_keeps_its_measured_accuracy(dataset: Dataset) -> None:
    table = pl.DataFrame({"item": [*dataset.items.values, "new"], "kind": [*(["a", "b"] * 20), "a"]})
    options = {"method_options": SMALL, "training": {"epochs": 1}}
    plain = Recommender(**options).fit(dataset, final=True)
    grown = Recommender(**options).fit(dataset, final=True, item_features=table)
    assert len(grown.items) == len(plain.items) + 1
    assert grown.metrics["test"] == plain.metrics["test"] != {}
    assert grown.metrics["validation"] == plain.metrics["validation"]
    assert grown.metrics["seconds"]["whole"] > grown.metrics["seconds"]["this_session"]
    updated = plain.update(pl.DataFrame({"user": ["later"], "item": [str(dataset.items.values[0])]}))
    assert updated.metrics["test"] == grown.metrics["test"]


def test_fit_learns_from_item_features(dataset: Dataset, tmp_path: Path) -> None:
    table = pl.DataFrame({"item": [*dataset.items.values, "new"], "kind": [*(["a", "b"] * 20), "a"]})
    fitted = Recommender(method_options=SMALL, training={"epochs": 1}).fit(dataset, item_features=table)
    assert fitted.metrics["updated"]["items_nobody_has"] == 1
    assert "new" in fitted.recommend(k=41)["item"]
    assert len(fitted.dataset().items) == 41
    table.write_csv(tmp_path / "items.csv")
    again = Recommender(method_options=SMALL, training={"epochs": 1}).fit(dataset, item_features=tmp_path / "items.csv")
    assert np.array_equal(again.ranking.items, fitted.ranking.items)


def test_update_changes_the_recommender_itself(dataset: Dataset) -> None:
    fitted = Recommender(method_options=SMALL, training={"epochs": 1}).fit(dataset)
    before = fitted.trained
    assert fitted.update(pl.DataFrame({"user": ["someone"], "item": ["ïtem 1"]})) is fitted
    assert fitted.trained is not before
    assert "someone" in fitted.users.values
    assert "changes the recommender" in (Recommender.update.__doc__ or "")


def test_sentences_name_arguments_and_not_options(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("3,x\n4,x\n4,y\n")
    with pytest.raises(UserError, match="`header=False`") as error:
        Recommender().fit(path)
    assert "--" not in str(error.value)
    assert "`--no-header`" in (error.value.typed or "")


def test_what_is_shown_leads_on_in_python(fitted: Recommender) -> None:
    assert "model.export(" in fitted._repr_html_()
    assert "legcf export" not in fitted._repr_html_()
