# SPDX-License-Identifier: Apache-2.0
"""A file with item lists: what was built is what is read, every path gives the same, damage is refused."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable
from legcf.ranking.topk_numba import reaches_few
from legcf.scoring.explain import explain
from legcf.scoring.foldin import UserProfile
from legcf.scoring.scorer import Request, Scorer
from tests.ranking.item_lists.test_lists import random_lists


@pytest.fixture(scope="module", params=[0.02, 0.6], ids=["short", "long"])
def listed(request: pytest.FixtureRequest, model: ServedModel) -> ServedModel:
    return replace(model, lists=random_lists(len(model.items), request.param, 1).rounded(6))


def test_lists_come_back(listed: ServedModel, tmp_path: Path) -> None:
    sizes = listed.save(tmp_path / "file")
    assert 0 < sizes["lists"] < listed.lists.num_entries * 3 + 200
    again = ServedModel.load(tmp_path / "file").lists
    assert again is not None
    assert np.array_equal(again.pairs.indptr, listed.lists.pairs.indptr)
    assert np.array_equal(again.pairs.items, listed.lists.pairs.items)
    assert np.allclose(again.weights, listed.lists.weights, atol=1e-6)
    assert again.user_power == listed.lists.user_power


@pytest.mark.parametrize("form", ["coded", "full"])
@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("k", [1, 9, 200])
def test_compiled_and_numpy_agree(listed: ServedModel, form: str, exclude_seen: bool, k: int) -> None:
    rows = DenseTable(listed.item_rows.vectors(slice(None))) if form == "full" else listed.item_rows
    bias = np.linspace(0, 0.3, len(listed.items)).astype(np.float32)
    scorer = Scorer(replace(listed, item_rows=rows, item_bias=bias))
    plain = scorer.recommend_all(k, exclude_seen, compiled=False)
    fast = scorer.recommend_all(k, exclude_seen, compiled=True)
    np.testing.assert_array_equal(plain[0], fast[0])
    np.testing.assert_allclose(plain[1], fast[1], rtol=1e-4, atol=1e-5)
    alone = scorer.recommend(Request("u8", k=k, exclude_seen=exclude_seen))
    assert [entry.id for entry in alone] == scorer.model.items.external(plain[0][8][plain[0][8] >= 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_short_lists_give_the_same_bits_compiled_and_by_numpy(model: ServedModel, weighted: bool) -> None:
    histories = model.history.all()
    if weighted:
        weights = np.random.default_rng(2).uniform(0.1, 9, histories.num_pairs).astype(np.float32)
        histories = replace(histories, weights=weights)
    short = replace(random_lists(len(model.items), 0.02, 1), user_power=0.37)
    scorer = Scorer(replace(model, lists=short, history=PackedHistories.of(histories)))
    assert reaches_few(short, histories)
    for exclude_seen in (True, False):
        plain = scorer.recommend_all(20, exclude_seen, compiled=False)
        for by_numpy, compiled in zip(plain, scorer.recommend_all(20, exclude_seen, compiled=True), strict=True):
            np.testing.assert_array_equal(by_numpy, compiled)


def test_a_new_user_is_the_same_case_as_a_known_one(listed: ServedModel) -> None:
    scorer = Scorer(replace(listed, user_rows=None))
    known = scorer.profile(Request("u5"))
    new = scorer.profile(Request(items=scorer.model.items.external(known.history)))
    np.testing.assert_array_equal(scorer.scores(known), scorer.scores(new))


def test_explanation_adds_up(listed: ServedModel) -> None:
    scorer = Scorer(listed)
    taste = scorer.profile(Request("u7"))
    scores = scorer.scores(taste)
    for why, item in zip(explain(scorer, taste, [10, 40]), (10, 40), strict=True):
        assert why.score == pytest.approx(float(scores[item]), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    "lie",
    [
        {"entries": 10**9},
        {"entries": 3},
        {"bits": 40},
        {"bits": 5},
        {"levels": 3},
        {"user_power": 99},
    ],
)
def test_lies_about_lists_are_refused(listed: ServedModel, tmp_path: Path, lie: dict[str, object]) -> None:
    listed.save(tmp_path / "file")
    arrays, metadata = read_container(tmp_path / "file")
    config = json.loads(metadata["config"])
    config["lists"] |= lie
    write_container(tmp_path / "lie", arrays, {**metadata, "config": json.dumps(config)})
    with pytest.raises(UserError, match="not consistent"):
        ServedModel.load(tmp_path / "lie")


def test_what_is_added_is_in_the_explanation(listed: ServedModel) -> None:
    scorer = Scorer(listed)
    for request in (Request("u7"), Request(items=["i/1", "i/4", "i/7"])):
        taste = scorer.profile(request)
        added = scorer.scores(taste) - Scorer(replace(listed, lists=None)).scores(taste)
        for why, item in zip(explain(scorer, taste, [10, 40]), (10, 40), strict=True):
            assert why.list_score == pytest.approx(float(added[item]), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
def test_nobody_gets_what_is_popular(listed: ServedModel, compiled: bool) -> None:
    scorer = Scorer(replace(listed, user_rows=None))
    nobody = np.zeros(listed.item_rows.width, dtype=np.float32)
    none = np.zeros(0, dtype=np.int32)
    np.testing.assert_array_equal(scorer.scores(UserProfile(nobody, none)), listed.popularity)
    # without a vector lists still know something
    speaker = int(np.argmax(listed.lists.lengths))
    some = UserProfile(nobody, np.array([speaker], dtype=np.int32))
    assert not np.array_equal(scorer.scores(some), listed.popularity)
    without = listed.history.all()
    empty = replace(listed, user_rows=None, history=PackedHistories.of(without.subset(without.users() != 4)))
    items, scores = Scorer(empty).recommend_all(5, compiled=compiled)
    alone = Scorer(empty).recommend(Request("u4", k=5))
    assert empty.items.external(items[4]) == [entry.id for entry in alone]
    assert scores[4, 0] == empty.popularity.max()


def test_ties_go_to_the_lower_index_in_both_paths(model: ServedModel) -> None:
    """All items have the same code and the same lists, so that they are equal in every part of the score."""
    size, rows = len(model.items), model.item_rows
    everything = Interactions.from_pairs(np.repeat(np.arange(size), size), np.tile(np.arange(size), size), size, size)
    copies = CodebookTable(rows.columns[:1].repeat(size, 0), rows.weights[:1].repeat(size, 0), rows.codebook)
    for lists in (ItemLists(everything, np.ones(size * size, dtype=np.float32)), None):
        scorer = Scorer(replace(model, item_rows=copies, lists=lists))
        for compiled in (False, True):
            items, _ = scorer.recommend_all(5, exclude_seen=False, compiled=compiled)
            np.testing.assert_array_equal(items, np.tile(np.arange(5), (len(items), 1)))


@pytest.mark.parametrize("scale", [0.25, -1.0, float("nan"), "much"])
def test_a_file_that_walks_over_neighbours_is_refused(scale: object, model_file: Path, tmp_path: Path) -> None:
    arrays, metadata = read_container(model_file)
    config = {**json.loads(metadata["config"]), "neighbour_scale": scale}
    write_container(tmp_path / "old", arrays, {**metadata, "config": json.dumps(config)})
    with pytest.raises(UserError, match="item lists replace it"):
        ServedModel.load(tmp_path / "old")
    config["neighbour_scale"] = 0.0
    write_container(tmp_path / "old", arrays, {**metadata, "config": json.dumps(config)})
    assert ServedModel.load(tmp_path / "old").lists is None


def test_numpy_is_all_it_imports(listed: ServedModel, tmp_path: Path) -> None:
    replace(listed, user_rows=None).save(tmp_path / "file")
    code = (
        "import sys; from legcf.scoring.scorer import Scorer, Request; from legcf.scoring.explain import explain;"
        f"s = Scorer.load({str(tmp_path / 'file')!r}).prepare(); t = s.profile(Request(items=['i/1', 'i/4']));"
        "s.scores(t);"
        "explain(s, t, [1]); s.recommend_all(3, compiled=False);"
        "heavy = {'torch', 'scipy', 'polars', 'numba', 'pandas', 'safetensors', 'pydantic', 'rich'} & set(sys.modules);"
        "assert s.model.lists is not None and not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
