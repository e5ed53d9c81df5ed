# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.features.encoder import FeatureEncoder
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import DenseTable, QuantisedTable, code_vector
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.scorer import Request, Scorer

from ..served import GROUPS


def test_new_items_reach_those_of_their_kind(model: ServedModel, encoder: FeatureEncoder, tmp_path: Path) -> None:
    placing = replace(model, encoder=encoder, item_bias=np.linspace(0, 0.01, len(model.items), dtype=np.float32))
    names = {"z": None, "i/new": "A new one"}
    new = [NewItem.of(placing, name, {"kind": "group 2"}, title) for name, title in names.items()]
    with_new_items(placing, new).save(tmp_path / "longer")
    scorer = Scorer.load(tmp_path / "longer")
    longer = scorer.model
    assert longer.items.values.tolist()[90:] == ["i/new", "z"]
    assert [longer.item_name(90), longer.item_name(91)] == ["A new one", "z"]
    assert longer.popularity[90:].tolist() == [0, 0]
    assert longer.item_bias is not None
    assert longer.item_bias[90:] == pytest.approx(0.005, abs=1e-4)
    near = scorer.similar_items("i/new", 10)
    assert all(int(str(entry.id)[2:]) % GROUPS == 2 for entry in near)
    profile = scorer.profile(Request(user="u59"))  # of the same group
    assert scorer.scores(profile)[-1] > np.quantile(scorer.scores(profile), 0.6)
    np.testing.assert_array_equal(scorer.history(3), Scorer(model).history(3))


@pytest.mark.parametrize("bits", [None, 4])
def test_tables_take_new_items_as_they_store_the_others(
    model: ServedModel, encoder: FeatureEncoder, bits: int | None
) -> None:
    vectors = model.item_rows.vectors(slice(None))
    rows = DenseTable(vectors) if bits is None else QuantisedTable.of(vectors, bits)
    table = replace(model, item_rows=rows, user_rows=None, encoder=encoder)
    new = NewItem.of(table, "i/new", {"kind": "group 1"})
    stored = with_new_items(table, [new]).item_rows
    assert isinstance(stored, type(rows))
    cosine = stored.vectors(np.array([90]))[0] @ new.vector
    assert cosine > 0.98 * np.linalg.norm(stored.vectors(np.array([90]))) * np.linalg.norm(new.vector)


def test_refusals(model: ServedModel, encoder: FeatureEncoder) -> None:
    with pytest.raises(UserError, match="--item-features"):
        NewItem.of(model, "i/new", {"kind": "group 1"})
    numbers = replace(model, items=IdMap.of(np.arange(90), "item"), encoder=encoder)
    with pytest.raises(UserError, match="kind"):
        NewItem.of(numbers, "i/new", {"kind": "group 1"})


def test_users_without_items_start_from_their_features(
    model: ServedModel, encoder: FeatureEncoder, tmp_path: Path
) -> None:
    replace(model, user_encoder=encoder).save(tmp_path / "model")
    scorer = Scorer.load(tmp_path / "model")

    def groups(**asked: Any) -> set[int]:
        return {int(str(entry.id)[2:]) % GROUPS for entry in scorer.recommend(Request(**asked, k=8))}

    assert [groups(features={"kind": f"group {group}"}) for group in range(GROUPS)] == [{0}, {1}, {2}]
    assert groups(items=["i/0", "i/3"], features={"kind": "group 1"}) == {0}  # items decide
    assert groups(user="u4", features={"kind": "group 2"}) == {1}
    assert scorer.fallback(scorer.profile(Request(features={"kind": None}))) == "popular"
    with pytest.raises(UserError, match="'age': the model knows kind"):
        groups(features={"age": 3})
    with pytest.raises(UserError, match="--user-features"):
        Scorer(model).recommend(Request(features={"kind": "group 1"}))


def test_code_of_a_vector_in_the_span_is_exact() -> None:
    rng = np.random.default_rng(0)
    book = rng.standard_normal((20, 8)).astype(np.float32)
    columns, weights = code_vector(2 * book[3] - 1.5 * book[11], book, 6)
    np.testing.assert_allclose(weights @ book[columns], 2 * book[3] - 1.5 * book[11], atol=1e-4)
    columns, weights = code_vector(np.zeros(8, np.float32), book, 4)
    assert not weights.any()
