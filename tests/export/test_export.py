# SPDX-License-Identifier: Apache-2.0
"""Check `export_model`: the file is written, and the report says what it holds and what it keeps of the accuracy."""

from dataclasses import replace
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.export.export import export_model
from legcf.export.options import ExportOptions
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.pooling import Pooling
from tests.served import Toy


def data_of(toy: Toy) -> Dataset:
    return Dataset("toy", "ratio", toy.users, toy.items, toy.train, toy.validation, toy.test, toy.titles)


def test_the_report_is_about_the_file(toy: Toy, tmp_path: Path) -> None:
    report = export_model(toy, tmp_path / "model", ExportOptions(t=3, c=12), lambda: data_of(toy))
    model = ServedModel.load(tmp_path / "model")
    assert report.bytes == (tmp_path / "model").stat().st_size == sum(report.parts.values())
    assert report.settings == {
        **{"d": 8, "entities": 150, "c": 12, "t": 3, "dtype": "int8", "format": "coded", "users": "coded"},
        "seed": 0,
    }
    assert report.fold_in == vars(model.fold_in)
    assert set(report.accuracy) == {"validation", "test"}
    assert model.card["serving"]["accuracy"] == report.accuracy
    assert report.accuracy["test"]["ndcg@20"]["after"] > 0.9 * report.accuracy["test"]["ndcg@20"]["before"]
    assert report.unmeasured is None


def test_what_was_measured_already_is_not_measured_again(toy: Toy, tmp_path: Path) -> None:
    measured = {"test": {"recall@20": 0.25, "ndcg@20": 0.125}}
    toy = replace(toy, card={**toy.card, "metrics": measured})
    report = export_model(toy, tmp_path / "model", ExportOptions(t=3, c=12), lambda: data_of(toy))
    assert report.accuracy["test"]["ndcg@20"]["before"] == 0.125
    assert report.accuracy["validation"]["ndcg@20"]["before"] > 0.125


def test_why_accuracy_was_not_measured(toy: Toy, tmp_path: Path) -> None:
    def gone() -> Dataset:
        raise UserError("The data is gone.")

    final = replace(toy, card={"metrics": {"final": {}}})
    empty = toy.train.subset(toy.train.items < 0)
    nothing = replace(data_of(toy), validation=empty, test=empty)
    for trained, opened, reason in (
        (toy, gone, "The data is gone."),
        (final, lambda: data_of(toy), "trained on every pair"),
        (toy, lambda: nothing, "no test or validation pairs"),
        (toy, None, "no data"),
    ):
        report = export_model(trained, tmp_path / "model", ExportOptions(t=3, c=12), opened)
        assert report.unmeasured is not None
        assert reason in report.unmeasured
        assert report.accuracy == {}


def test_users_follow_from_the_model(toy: Toy, tmp_path: Path) -> None:
    pooled = replace(toy, ranking=replace(toy.ranking, pooling=Pooling(0.5, 0.5, toy.train.item_degrees)))
    sized = replace(pooled, card={"config": {"ranking": {"bytes": 10**6}}})
    for trained, options, users in (
        (toy, ExportOptions(), "coded"),
        (pooled, ExportOptions(), "history"),
        (sized, ExportOptions(), "none"),
        (sized, ExportOptions(format="full"), "history"),
    ):
        assert export_model(trained, tmp_path / "model", options).settings["users"] == users
    with pytest.raises(UserError, match="have no vectors"):
        export_model(pooled, tmp_path / "model", ExportOptions(users="coded"))
