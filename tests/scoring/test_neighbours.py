# SPDX-License-Identifier: Apache-2.0
"""What neighbours add, served from the histories of a file: the dense formula, for everybody, in every path."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.evaluation import evaluate
from legcf.export.build import accuracy, build, served_ranking
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable
from legcf.scoring.explain import explain
from legcf.scoring.extend import with_item
from legcf.scoring.neighbours import HistoryNeighbours
from legcf.scoring.profile import UserProfile
from legcf.scoring.scorer import Request, Scorer
from tests.helpers import graphs
from tests.ranking.test_neighbours import dense

from ..served import Toy


def of(train: Interactions, scale: float = 1.0) -> HistoryNeighbours:
    return HistoryNeighbours.of(PackedHistories.of(train), scale)


@pytest.fixture(scope="module")
def scorer(near_model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    path = tmp_path_factory.mktemp("near") / "model"
    near_model.save(path)
    return Scorer.load(path).prepare()


@given(graphs())
def test_term_is_the_dense_product_and_its_parts_sum_up_to_it(train: Interactions) -> None:
    neighbours, wanted = of(train, 2.5), 2.5 * dense(train)
    for user in range(train.num_users):
        items = train.of(user)
        np.testing.assert_allclose(neighbours.term(items), wanted[user], atol=1e-5)
        parts = neighbours.parts(items, np.arange(train.num_items))
        assert parts.shape == (len(items), train.num_items)
        np.testing.assert_allclose(parts.sum(axis=0), wanted[user], atol=1e-5)


def test_scores_are_vectors_and_neighbours(scorer: Scorer, toy: Toy) -> None:
    model = scorer.model
    assert model.user_rows is not None
    products = model.user_rows.vectors(slice(None)) @ model.item_rows.vectors(slice(None)).T
    wanted = products + model.neighbour_scale * dense(toy.train)
    for user in range(0, 60, 7):
        np.testing.assert_allclose(
            scorer.scores(scorer.profile(Request(f"u{user}"))), wanted[user], rtol=1e-4, atol=1e-4
        )


def test_someone_new_is_like_a_user_with_the_same_items(near_model: ServedModel, toy: Toy) -> None:
    solving = Scorer(replace(near_model, user_rows=None))
    items = toy.items.external(toy.train.of(5))
    known, new = (solving.profile(request) for request in (Request("u5"), Request(items=items)))
    np.testing.assert_array_equal(solving.scores(known), solving.scores(new))
    with_news = solving.profile(Request("u5", items=["i/0", "i/1"]))
    alone = solving.profile(Request(items=[*items, "i/1", "i/0"]))
    np.testing.assert_array_equal(solving.scores(with_news), solving.scores(alone))
    assert not np.array_equal(solving.scores(with_news), solving.scores(known))


def test_nothing_known_gives_what_is_popular(scorer: Scorer) -> None:
    nobody = np.zeros(scorer.model.item_rows.width, dtype=np.float32)
    popular = scorer.model.popularity
    np.testing.assert_array_equal(scorer.scores(UserProfile(nobody, np.zeros(0, dtype=np.int32))), popular)
    # without a vector neighbours still know something
    assert not np.array_equal(scorer.scores(UserProfile(nobody, np.array([3], dtype=np.int32))), popular)


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_users_without_items_get_what_is_popular_among_all_users(toy: Toy, near: bool, compiled: bool) -> None:
    kept = toy.train.users() != 4
    train = toy.train.subset(kept)
    neighbours = Neighbours.of(train) if near else None
    ranking = Ranking(toy.ranking.users, toy.ranking.items, train, term=neighbours)
    built = build(replace(toy, ranking=ranking, known=train), t=3, c=12, quiet=True, keep_users=False)
    scorer = Scorer(built)
    items, scores = scorer.recommend_all(5, compiled=compiled)
    alone = scorer.recommend(Request("u4", k=5))
    assert scorer.model.items.external(items[4]) == [entry.id for entry in alone]
    np.testing.assert_array_equal(scores[4], [entry.score for entry in alone])
    assert scores[4, 0] == built.popularity.max()


@pytest.mark.parametrize("form", ["coded", "full"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("exclude_seen", [False, True])
@pytest.mark.parametrize("k", [1, 7, 200])
def test_compiled_and_numpy_agree(
    near_model: ServedModel, form: str, with_bias: bool, exclude_seen: bool, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legcf.scoring.batch._BLOCK_BYTES", 4 * 90 * 7)
    bias = np.linspace(0, 0.3, 90).astype(np.float32) if with_bias else None
    rows = DenseTable(near_model.item_rows.vectors(slice(None))) if form == "full" else near_model.item_rows
    scorer = Scorer(replace(near_model, item_bias=bias, item_rows=rows))
    plain = scorer.recommend_all(k, exclude_seen, compiled=False)
    fast = scorer.recommend_all(k, exclude_seen, compiled=True)
    np.testing.assert_array_equal(plain[0], fast[0])
    np.testing.assert_allclose(plain[1], fast[1], rtol=1e-4, atol=1e-5)
    alone = scorer.recommend(Request("u8", k=k, exclude_seen=exclude_seen))
    assert [entry.id for entry in alone] == scorer.model.items.external(plain[0][8][plain[0][8] >= 0])


def test_ties_go_to_the_lower_index_in_both_paths(near_model: ServedModel) -> None:
    """All items have the same code and the same users, so that they are equal in every part of the score."""
    everything = Interactions.from_pairs(np.repeat(np.arange(59), 90), np.tile(np.arange(90), 59), 60, 90)
    history = PackedHistories.of(everything)
    rows = near_model.item_rows
    assert isinstance(rows, CodebookTable)
    copies = CodebookTable(rows.columns[:1].repeat(90, 0), rows.weights[:1].repeat(90, 0), rows.codebook)
    scorer = Scorer(replace(near_model, item_rows=copies, history=history))
    for compiled in (False, True):
        items, _ = scorer.recommend_all(5, exclude_seen=False, compiled=compiled)
        np.testing.assert_array_equal(items, np.tile(np.arange(5), (60, 1)))


def test_explanation_adds_up(scorer: Scorer) -> None:
    for request in (Request("u7"), Request(items=["i/1", "i/4", "i/7"])):
        taste = scorer.profile(request)
        scores = scorer.scores(taste)
        without = Scorer(replace(scorer.model, neighbour_scale=0.0)).scores(taste)
        for why, item in zip(explain(scorer, taste, [10, 40]), (10, 40), strict=True):
            assert why.score == pytest.approx(float(scores[item]), rel=1e-3, abs=1e-5)
            assert why.neighbours == pytest.approx(float(scores[item] - without[item]), rel=1e-3, abs=1e-5)
    assert why.neighbours > 0
    assert scorer.term is not None
    target = np.array([40])
    parts = scorer.solver.contributions(taste.history, scorer.model.item_rows.vectors(target))
    parts += scorer.term.parts(taste.history, target)
    assert float(parts.sum()) == pytest.approx(why.score, rel=1e-3)
    assert why.because[0].score == pytest.approx(float(parts.max()))


def test_a_new_item_is_reached_through_its_users(near_model: ServedModel) -> None:
    longer = Scorer(with_item(near_model, "i/new", [f"u{user}" for user in range(2, 40, 3)]))
    assert longer.term is not None
    assert longer.term.term(longer.history(59))[-1] > 0


def test_scale_is_in_the_file(near_model: ServedModel, scorer: Scorer) -> None:
    assert near_model.neighbour_scale > 0
    assert scorer.model.neighbour_scale == near_model.neighbour_scale
    assert scorer.model.card["serving"]["neighbour_scale"] == near_model.neighbour_scale


def test_files_without_a_scale_have_no_neighbours(model_file: Path) -> None:
    assert "neighbour_scale" not in json.loads(read_container(model_file)[1]["config"])
    old = Scorer.load(model_file)
    assert old.model.neighbour_scale == 0
    assert old.term is None


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e300, "much", None, [1.0]])
def test_a_wrong_scale_is_refused(value: object, model_file: Path, tmp_path: Path) -> None:
    arrays, metadata = read_container(model_file)
    config = {**json.loads(metadata["config"]), "neighbour_scale": value}
    write_container(tmp_path / "lie", arrays, {**metadata, "config": json.dumps(config)})
    with pytest.raises(UserError, match="not consistent"):
        ServedModel.load(tmp_path / "lie")


def test_a_scale_without_histories_is_refused(model: ServedModel, tmp_path: Path) -> None:
    replace(model, history=None).save(tmp_path / "bare")
    arrays, metadata = read_container(tmp_path / "bare")
    config = {**json.loads(metadata["config"]), "neighbour_scale": 1.0}
    write_container(tmp_path / "lie", arrays, {**metadata, "config": json.dumps(config)})
    with pytest.raises(UserError, match="histories"):
        ServedModel.load(tmp_path / "lie")


def test_accuracy_is_measured_with_them(near_model: ServedModel, toy: Toy) -> None:
    assert near_model.user_rows is not None
    pair = near_model.user_rows.vectors(slice(None)), near_model.item_rows.vectors(slice(None))
    neighbours = replace(Neighbours.of(toy.train), scale=near_model.neighbour_scale)
    wanted = evaluate(Ranking(*pair, toy.train, term=neighbours), toy.test, (20,))["ndcg@20"]
    without = replace(near_model, neighbour_scale=0.0)
    assert accuracy(served_ranking(near_model, toy.train), toy.test)["ndcg@20"] == wanted
    assert accuracy(served_ranking(without, toy.train), toy.test)["ndcg@20"] != wanted


@pytest.mark.parametrize("dropped", [{"keep_history": False}, {"keep_neighbours": False}])
def test_left_out(toy: Toy, dropped: dict[str, bool]) -> None:
    near = replace(toy, ranking=replace(toy.ranking, term=Neighbours.of(toy.train)))
    built = build(near, t=3, c=12, quiet=True, keep_titles=False, **dropped)
    assert built.neighbour_scale == 0
    assert "neighbour_scale" not in built.card["serving"]


def test_numpy_is_all_it_imports(near_model: ServedModel, tmp_path: Path) -> None:
    near_model.save(tmp_path / "near")
    code = (
        "import sys; from legcf.scoring.scorer import Scorer, Request; from legcf.scoring.explain import explain;"
        f"s = Scorer.load({str(tmp_path / 'near')!r}).prepare(); t = s.profile(Request('u1')); s.scores(t);"
        "explain(s, t, [1]); s.recommend_all(3, compiled=False);"
        "heavy = {'torch', 'scipy', 'polars', 'numba', 'pandas', 'safetensors', 'pydantic', 'rich'} & set(sys.modules);"
        "assert s.term is not None and not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
