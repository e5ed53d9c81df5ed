# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.export.accuracy import headline
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.modelfile.codecs import Store, get_ids, put_ids
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, QuantisedTable

from ..served import Toy, make_toy


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["coded", "full"])
@pytest.mark.parametrize("text_ids", [True, False])
def test_what_is_saved_is_what_was_built(dtype: str, form: str, text_ids: bool, tmp_path: Path) -> None:
    toy = make_toy(text_ids=text_ids)
    bias = np.linspace(0, 0.1, len(toy.items)).astype(np.float32)
    toy = dataclasses.replace(toy, ranking=dataclasses.replace(toy.ranking, bias=bias))
    built = build(toy, ExportOptions(t=3, c=12, dtype=dtype, format=form), toy.validation)
    sizes = built.save(tmp_path / "model")
    again = ServedModel.load(tmp_path / "model")
    assert sum(sizes.values()) == (tmp_path / "model").stat().st_size
    for side in ("user_rows", "item_rows"):
        # accuracy printed at export is that of the file: rounding happens before measuring, not on the way out
        mine, read = (getattr(which, side).vectors(slice(None)) for which in (built, again))
        np.testing.assert_allclose(read, mine, rtol=0.02 if dtype == "int8" else 1e-3, atol=2e-3)
    assert again.items.values.tolist() == toy.items.values.tolist()
    assert again.users is not None
    assert again.users.values.tolist() == toy.users.values.tolist()
    assert again.titles == toy.titles
    assert again.history is not None
    np.testing.assert_array_equal(again.history.all().items, toy.known.items)
    np.testing.assert_array_equal(again.history.indptr, toy.known.indptr)
    np.testing.assert_array_equal(again.popularity, toy.train.item_degrees)
    assert again.item_bias is not None
    assert again.card == built.card
    assert again.fold_in == built.fold_in


def test_saved_twice_is_the_same(model: ServedModel, model_file: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model_file.read_bytes()
    ServedModel.load(model_file).save(tmp_path / "copy")
    assert ServedModel.load(tmp_path / "copy").items.values.tolist() == model.items.values.tolist()


def test_accuracy_is_kept(toy: Toy, model: ServedModel) -> None:
    full = build(toy, ExportOptions(dtype="float16", format="full"), toy.validation)
    assert isinstance(full.item_rows, DenseTable)
    before = headline(served_ranking(full, toy.train), toy.test)["ndcg@20"]
    assert headline(served_ranking(model, toy.train), toy.test)["ndcg@20"] > 0.95 * before


def test_items_only_stores_no_user(toy: Toy, tmp_path: Path) -> None:
    built = build(toy, ExportOptions(t=3, c=12, users="none"), toy.validation)
    built.save(tmp_path / "items")
    again = ServedModel.load(tmp_path / "items")
    assert again.users is None
    assert again.user_rows is None
    assert b"user_rows" not in (tmp_path / "items").read_bytes()
    coded = build(toy, ExportOptions(t=3, c=12), toy.validation)
    solved, stored = (
        headline(served_ranking(which, toy.train, quiet=True), toy.test)["ndcg@20"] for which in (again, coded)
    )
    assert solved > 0.9 * stored


def test_a_bias_is_stored_by_itself(toy: Toy) -> None:
    bias = np.linspace(-1, 1, len(toy.items)).astype(np.float32)
    biased = dataclasses.replace(toy, ranking=dataclasses.replace(toy.ranking, bias=bias))
    built = build(biased, ExportOptions(t=3, c=12), toy.validation)
    assert isinstance(built.item_rows, CodebookTable)
    assert built.item_rows.width == toy.ranking.items.shape[1]
    assert built.item_bias is not None
    np.testing.assert_allclose(built.item_bias, bias, atol=1e-3)


@pytest.mark.parametrize("bits", [2, 4])
def test_a_table_of_few_bits_comes_back(bits: int, model: ServedModel, tmp_path: Path) -> None:
    packed = QuantisedTable.of(model.item_rows.vectors(slice(None)), bits)
    dataclasses.replace(model, item_rows=packed, user_rows=None).save(tmp_path / "file")
    again = ServedModel.load(tmp_path / "file").item_rows
    assert isinstance(again, QuantisedTable)
    np.testing.assert_array_equal(again.values, packed.values)
    np.testing.assert_allclose(again.scales, packed.scales, rtol=1e-6)


@pytest.mark.parametrize("first", [0, -5, 2**62 - 1, 2**62, 2**63 - 50, 2**63, 2**64 - 50])
@pytest.mark.parametrize("permuted", [False, True])
def test_ids_of_any_size_come_back(first: int, permuted: bool) -> None:
    values = [first + number for number in range(40)]
    ids = IdMap.of(values[::-1] if permuted else values, "item")
    store: Store = {}
    config = put_ids(store, "ids", ids)
    assert get_ids(store, "ids", config, len(ids), "item").values.tolist() == ids.values.tolist()
