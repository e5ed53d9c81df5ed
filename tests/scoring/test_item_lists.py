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
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import DenseTable
from legcf.scoring.explain import explain
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


def test_numpy_is_all_it_imports(listed: ServedModel, tmp_path: Path) -> None:
    replace(listed, user_rows=None).save(tmp_path / "file")
    code = (
        "import sys; from legcf.scoring.scorer import Scorer, Request; from legcf.scoring.explain import explain;"
        f"s = Scorer.load({str(tmp_path / 'file')!r}).prepare(); t = s.profile(Request(items=['i/1', 'i/4']));"
        "s.scores(t);"
        "explain(s, t, [1]); s.recommend_all(3, compiled=False);"
        "heavy = {'torch', 'scipy', 'polars', 'numba', 'pandas', 'safetensors', 'pydantic', 'rich'} & set(sys.modules);"
        "assert s.term is not None and not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
