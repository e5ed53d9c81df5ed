# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable
from legcf.scoring.explain import explain
from legcf.scoring.scorer import Request, Scorer

from ..served import GROUPS, Toy


@pytest.fixture(scope="module")
def scorer(model_file: Path) -> Scorer:
    return Scorer.load(model_file)


def dense_scores(model: ServedModel) -> np.ndarray:
    assert model.user_rows is not None
    return model.user_rows.vectors(slice(None)) @ model.item_rows.vectors(slice(None)).T


def test_codes_score_like_the_vectors_they_stand_for(scorer: Scorer) -> None:
    expected = dense_scores(scorer.model)
    for user in (0, 7, 59):
        taste = scorer.profile(Request(user=f"u{user}"))
        np.testing.assert_allclose(scorer.scores(taste), expected[user], rtol=1e-4, atol=1e-5)


def test_users_get_unseen_items_of_their_own_group(scorer: Scorer, toy: Toy) -> None:
    for user in range(0, 60, 7):
        found = scorer.recommend(Request(user=f"u{user}", k=5))
        positions = [toy.items.position(entry.id) for entry in found]
        assert all(position % GROUPS == user % GROUPS for position in positions)
        assert not set(positions) & set(toy.train.of(user).tolist())
        assert found[0].name == f"Title {positions[0]} é"


def test_filters(scorer: Scorer) -> None:
    allow = [f"i/{item}" for item in range(0, 30)]
    found = scorer.recommend(Request(user="u3", k=100, allow=allow, deny=["i/0", "i/3"], exclude_seen=False))
    assert {entry.id for entry in found} == set(allow) - {"i/0", "i/3"}
    assert scorer.recommend(Request(user="u3", allow=[])) == []


def test_new_user_by_items(scorer: Scorer, toy: Toy) -> None:
    found = scorer.recommend(Request(items=["i/1", "i/4", "i/7", "i/10"], k=10))
    positions = [toy.items.position(entry.id) for entry in found]
    assert all(position % GROUPS == 1 for position in positions)
    assert not set(positions) & {1, 4, 7, 10}


def test_known_user_with_news_moves_towards_them(scorer: Scorer, toy: Toy) -> None:
    news = [f"i/{item}" for item in range(1, 60, 3)]
    before, after = scorer.profile(Request(user="u0")), scorer.profile(Request(user="u0", items=news))
    group = np.arange(len(toy.items)) % GROUPS == 1
    assert scorer.scores(after)[group].mean() > scorer.scores(before)[group].mean() + 0.1


def test_nothing_known_gives_what_is_popular(scorer: Scorer, toy: Toy) -> None:
    first = scorer.recommend(Request(k=3))[0]
    assert toy.train.item_degrees[toy.items.position(first.id)] >= np.sort(toy.train.item_degrees)[-6]


def test_similar(scorer: Scorer, toy: Toy) -> None:
    items = scorer.similar_items("i/5", 8)
    assert all(toy.items.position(entry.id) % GROUPS == 5 % GROUPS for entry in items)
    assert "i/5" not in {entry.id for entry in items}
    users = scorer.similar_users("u5", 8)
    assert all(toy.users.position(entry.id) % GROUPS == 5 % GROUPS for entry in users)


def test_explanation_adds_up(scorer: Scorer) -> None:
    request = Request(items=["i/1", "i/4", "i/7"])
    taste = scorer.profile(request)
    (why,) = explain(scorer, taste, [10])
    parts = scorer.solver.contributions(taste.history, scorer.model.item_rows.vectors(np.array([10])))
    assert float(parts.sum()) == pytest.approx(why.score, rel=1e-3)
    assert why.score == pytest.approx(float(scorer.scores(taste)[10]), rel=1e-3)
    rows = scorer.model.item_rows
    assert isinstance(rows, CodebookTable)
    terms = rows.weights[10] * (rows.codebook[rows.columns[10]] @ taste.vector)
    assert float(terms.sum()) == pytest.approx(why.score, rel=1e-3)
    assert {entry.id for entry in why.because} <= {"i/1", "i/4", "i/7"}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("exclude_seen", [False, True])
@pytest.mark.parametrize("k", [1, 7, 200])
def test_compiled_and_numpy_agree_to_the_last_bit(
    model: ServedModel, with_bias: bool, exclude_seen: bool, k: int
) -> None:
    bias = np.linspace(0, 0.3, len(model.items)).astype(np.float32) if with_bias else None
    scorer = Scorer(replace(model, item_bias=bias))
    plain = scorer.recommend_all(k, exclude_seen, compiled=False)
    fast = scorer.recommend_all(k, exclude_seen, compiled=True)
    np.testing.assert_array_equal(plain[0], fast[0])
    np.testing.assert_array_equal(plain[1], fast[1])


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_a_table_is_ranked_for_many_users_at_once(model: ServedModel, exclude_seen: bool) -> None:
    """One product for a block of users instead of one for each, which rounds otherwise."""
    bias = np.linspace(0, 0.3, len(model.items)).astype(np.float32)
    table = DenseTable(model.item_rows.vectors(slice(None)))
    scorer = Scorer(replace(model, item_rows=table, item_bias=bias))
    one_by_one = scorer.recommend_all(7, exclude_seen, compiled=False)
    at_once = scorer.recommend_all(7, exclude_seen, compiled=True)
    np.testing.assert_array_equal(one_by_one[0], at_once[0])
    np.testing.assert_allclose(one_by_one[1], at_once[1], rtol=1e-4)


def test_ties_go_to_the_lower_index_in_both_paths(model: ServedModel) -> None:
    rows = model.item_rows
    assert isinstance(rows, CodebookTable)
    copies = CodebookTable(rows.columns[:1].repeat(90, 0), rows.weights[:1].repeat(90, 0), rows.codebook)
    scorer = Scorer(replace(model, item_rows=copies))
    for compiled in (False, True):
        items, _ = scorer.recommend_all(5, exclude_seen=False, compiled=compiled)
        np.testing.assert_array_equal(items, np.tile(np.arange(5), (60, 1)))


def test_all_users_solved_when_none_is_stored(model: ServedModel) -> None:
    items, _ = Scorer(replace(model, user_rows=None)).recommend_all(5)
    assert np.mean(items % GROUPS == (np.arange(60) % GROUPS)[:, None]) > 0.95


@pytest.mark.parametrize("stored", [True, False])
def test_blocks_are_the_whole(model: ServedModel, stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legcf.scoring.batch._BLOCK", 7)
    scorer = Scorer(model if stored else replace(model, user_rows=None))
    items, scores = scorer.recommend_all(5, compiled=False)
    for users, some_items, some_scores in scorer.recommend_blocks(5, compiled=False):
        np.testing.assert_array_equal(items[users], some_items)
        np.testing.assert_array_equal(scores[users], some_scores)
        for user in range(users.start, users.stop):
            alone = scorer.recommend(Request(user=f"u{user}", k=5))
            np.testing.assert_allclose([entry.score for entry in alone], scores[user], rtol=1e-4, atol=1e-5)


def test_sentences_for_what_cannot_be(model: ServedModel) -> None:
    nobody = Scorer(replace(model, users=None, user_rows=None, history=None))
    with pytest.raises(UserError, match="stores no users"):
        nobody.recommend(Request(user="u1"))
    with pytest.raises(UserError, match="Unknown item id"):
        nobody.recommend(Request(items=["nothing"]))
    with pytest.raises(UserError, match="stores no users"):
        nobody.recommend_all()


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_a_number_below_one_is_refused(scorer: Scorer, k: int) -> None:
    for ask in (
        lambda: scorer.recommend_all(k),
        lambda: scorer.recommend_blocks(k),
        lambda: scorer.recommend(Request(user="u1", k=k)),
        lambda: scorer.similar_items("i/1", k),
        lambda: scorer.similar_users("u1", k),
    ):
        with pytest.raises(UserError, match=r"at least 1|whole number"):
            ask()


def test_numpy_is_all_it_imports(model_file: Path) -> None:
    code = (
        "import sys; from legcf.scoring.scorer import Scorer, Request; from legcf.scoring.explain import explain;"
        f"s = Scorer.load({str(model_file)!r}); s.recommend(Request(user='u1')); s.similar_items('i/1');"
        "s.recommend(Request(items=['i/1'])); s.recommend_all(3, compiled=False);"
        "heavy = {'torch', 'scipy', 'polars', 'numba', 'pandas', 'safetensors', 'pydantic', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "metrics",
    [None, [], 3, {"test": 1}, {"test": {"ndcg@20": "x"}}, {"test": {"ndcg@20": 10**400}}, {"test": []}],
    ids=repr,
)
def test_it_is_represented_whatever_its_card_says(metrics: object, model: ServedModel) -> None:
    assert "90 items" in repr(Scorer(replace(model, card={"metrics": metrics})))
