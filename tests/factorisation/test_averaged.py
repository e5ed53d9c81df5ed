# SPDX-License-Identifier: Apache-2.0
"""An average of factorisations ranks by the mean of their scores, and its settings give it again."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from legcf.data.interactions import Dataset
from legcf.embeddings.full import FullTableConfig
from legcf.factorisation import averaged as module
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.averaged import averaged_items
from legcf.factorisation.history_vectors import history_items
from legcf.recommender import Recommender
from legcf.training import shared_work
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.session import TrainingOptions
from tests.helpers import planted

SETTINGS = AlsSettings(alpha=10.0, regularisation=40.0, rounds=3)
SOME = {"method": {"c": 8, "dim": 16}, "ranking": {"bytes": 20_000}}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(150, 120, cold=3)


def test_products_are_the_mean_of_those_of_the_factorisations(dataset: Dataset) -> None:
    items = averaged_items(dataset.train, np.random.default_rng(1), SETTINGS, 3)
    rng, products = np.random.default_rng(1), []
    for factor in (0.5, 1.0, 2.0):
        one = SETTINGS.model_copy(update={"alpha": 10 * factor, "regularisation": 40 * factor})
        vectors = history_items(dataset.train, *factorise(dataset.train, 120 // 4, rng, one))
        products.append(vectors @ vectors.T)
    np.testing.assert_allclose(items @ items.T, np.mean(products, axis=0), atol=1e-4)
    sizes = np.linalg.norm(items, axis=0)
    assert (np.diff(sizes) <= 1e-3 * sizes[0]).all(), "the widest directions come first"


def test_without_an_alpha_one_is_found(dataset: Dataset) -> None:
    unknown = SETTINGS.model_copy(update={"alpha": None})
    assert np.isfinite(averaged_items(dataset.train, np.random.default_rng(1), unknown, 2)).all()


@pytest.mark.parametrize("settings", [{"rows": "all", "initial": "als"}, {"rows": "items", "initial": "normal"}])
def test_what_cannot_be_averaged_is_refused(settings: Any) -> None:
    with pytest.raises(ValidationError, match="factorisations are averaged for items alone"):
        FullTableConfig(**settings, factorisations=2)


def test_the_default_on_few_pairs_is_an_average_and_its_settings_give_it_again(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(*arguments: Any) -> Any:
        made.append(arguments[-1])
        return averaged_items(*arguments)

    monkeypatch.setattr(shared_work, "averaged_items", counted)
    monkeypatch.setattr("legcf.training.selection.table_search._DENSE", 1.0)  # or singular vectors are tried as well
    trained = train(dataset, resolve(overrides=SOME), TrainingOptions(quiet=True))
    assert trained.config.method.model_dump()["factorisations"] == made[0] > 1
    assert len(made) == 1, "what was selected is not made twice"
    again = train(dataset, trained.config, TrainingOptions(quiet=True))
    np.testing.assert_array_equal(again.ranking.items, trained.ranking.items)


def test_it_is_trained_on_all_pairs_saved_and_updated(dataset: Dataset, tmp_path: Path) -> None:
    settings = {"factorisations": 2, "dim": 16, "als": SETTINGS.model_dump()}
    ranking = {"bytes": 20_000, "bits": 4, "lists": None}
    fitted = Recommender("full", preset="items", method_options=settings, ranking=ranking)
    fitted.fit(dataset)
    fitted.save(tmp_path)
    again = Recommender.load(tmp_path)
    np.testing.assert_array_equal(again.ranking.items, fitted.ranking.items)
    before = again.ranking.num_items
    again.update(pl.DataFrame({"user": dataset.users.values[:5], "item": [10**6] * 5}), evaluate=False)
    assert again.ranking.num_items == before + 1


def test_more_columns_than_there_are_stay_empty(dataset: Dataset) -> None:
    method = {"factorisations": 2, "dim": 100, "als": SETTINGS.model_dump()}
    config = resolve("full", "history", "items", overrides={"method": method})
    items = train(dataset, config, TrainingOptions(quiet=True)).model.layer.item_rows()
    assert np.abs(items[:, :60]).sum() > 0
    assert not items[:, 60:].any()
    assert module.averaged_items(dataset.train, np.random.default_rng(0), SETTINGS, 2).shape == (120, 60)
