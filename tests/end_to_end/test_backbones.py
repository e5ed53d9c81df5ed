# SPDX-License-Identifier: Apache-2.0
"""Every backbone under the full table and under LEGCF: it learns, resumes, loads and can be served."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.assignment.update import aggregated
from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.embeddings.legcf import Legcf
from legcf.export.accuracy import headline
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.recommender import Recommender
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import BACKBONES, METHODS, resolve
from legcf.training.run import build_model, train
from tests.helpers import planted

TRAVELLING = sorted(name for name, backbone in BACKBONES.items() if "layers" in backbone.Config.model_fields)
METHOD_OPTIONS: dict[str, dict[str, Any]] = {"full": {"dim": 8}, "legcf": {"c": 12, "dim": 8, "start": "random"}}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """With two users and two items that have no pairs."""
    return planted(60, 80, cold=2)


def configured(method: str, backbone: str, options: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    quick = {"epochs": 6, "batch_size": 128, "learning_rate": 2e-2, "checkpoint_seconds": 0, "patience": 6}
    given = {"method": METHOD_OPTIONS[method], "backbone": options or {}, "training": quick | training}
    return resolve(method, backbone, "paper", overrides=given)


@pytest.mark.parametrize("method", ["full", "legcf"])
@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        *((name, {}) for name in TRAVELLING),
        ("ngcf", {"node_dropout": 0.2, "adjacency": "sym", "activation": "joint", "normalise": False}),
        ("lr-gccf", {"transform": True}),
    ],
)
def test_from_training_to_serving(
    method: str, backbone: str, options: dict[str, Any], dataset: Dataset, tmp_path: Path
) -> None:
    config = configured(method, backbone, options, l2=1e-4, l2_on="final")
    whole = train(dataset, config, TrainingOptions(tmp_path / "whole", quiet=True))
    assert whole.metrics["test"]["recall@20"] > 0.6  # popularity finds 0.21

    lines = iter(range(4))

    def stop(line: dict[str, Any]) -> None:
        if next(lines, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(dataset, config, TrainingOptions(tmp_path / "broken", quiet=True, on_epoch=stop))
    resumed = train(dataset, config, TrainingOptions(tmp_path / "broken", resume=True, quiet=True))
    assert resumed.metrics["test"] == whole.metrics["test"]
    assert np.array_equal(resumed.ranking.items, whole.ranking.items)

    loaded = Recommender.load(tmp_path / "whole")
    assert np.allclose(loaded.ranking.users, whole.ranking.users, atol=1e-5)
    assert np.allclose(loaded.ranking.items, whole.ranking.items, atol=1e-5)
    served = build(loaded.trained, ExportOptions(dtype="float32", format="full"))
    told = headline(served_ranking(served, dataset.train, quiet=True), dataset.test)
    assert told["recall@20"] == pytest.approx(whole.metrics["test"]["recall@20"], abs=1e-3)
    coded = build(loaded.trained, ExportOptions(t=4))
    assert coded.item_rows.width == loaded.ranking.items.shape[1]
    assert build(loaded.trained, ExportOptions(t=4, users="history")).user_rows is None


@pytest.mark.parametrize("backbone", TRAVELLING)
def test_backbone_parameters_are_told_apart_and_stored(backbone: str, dataset: Dataset) -> None:
    """#Param is the embedding layer's alone; what must be stored is more."""
    trained = train(dataset, configured("legcf", backbone, epochs=0), TrainingOptions(quiet=True))
    inside = sum(parameter.numel() for parameter in trained.model.backbone.parameters())
    layer = trained.model.layer
    assert trained.metrics["backbone_params"] == inside
    assert trained.metrics["num_params"] == layer.num_params()
    assert trained.metrics["storage_bytes"] == layer.storage_bytes() + 4 * inside
    assert trained.metrics["full_table_bytes"] == 140 * 128 * 4


@pytest.mark.parametrize("update_on", ["mean", "concat", "first", "last"])
@pytest.mark.parametrize("backbone", TRAVELLING)
def test_legcf_solves_both_sides_through_one_map(backbone: str, update_on: str, dataset: Dataset) -> None:
    config = configured("legcf", backbone)
    config = config.model_copy(update={"method": config.method.model_copy(update={"update_on": update_on})})
    rng = np.random.default_rng(0)
    model = build_model(config, dataset, rng, None)
    session = Session(
        model,
        dataset,
        config,
        METHODS["legcf"].recipe(config.method, config.training),
        rng,
        TrainingOptions(quiet=True),
    )
    widths = config.backbone.block_widths(8)
    full, meta = (aggregated(vectors, widths, update_on) for vectors in (model.entity_vectors(), model.meta_vectors()))
    wanted = np.maximum(full @ np.linalg.pinv(meta), 0)
    session.stages[1].after_epoch(session, 1)
    assert isinstance(model.layer, Legcf)
    found = model.layer.assignment.to_csr().toarray()
    assert np.allclose(found[found != 0], wanted[found != 0], atol=1e-3, rtol=1e-2)
    assert ((found != 0).sum(axis=1) <= 2).all()


@pytest.mark.parametrize("backbone", TRAVELLING)
def test_an_update_that_has_nothing_to_correct_changes_nothing(backbone: str, dataset: Dataset) -> None:
    """Without layers H_full = S · H_meta exactly, and six rows of width 8 are of full rank."""
    config = configured("legcf", backbone, {"layers": 0})
    config = config.model_copy(update={"method": config.method.model_copy(update={"c": 6})})
    rng = np.random.default_rng(0)
    model = build_model(config, dataset, rng, None)
    session = Session(
        model,
        dataset,
        config,
        METHODS["legcf"].recipe(config.method, config.training),
        rng,
        TrainingOptions(quiet=True),
    )
    assert isinstance(model.layer, Legcf)
    before = model.layer.assignment.to_csr().toarray()
    session.stages[1].after_epoch(session, 1)
    assert np.allclose(model.layer.assignment.to_csr().toarray(), before, atol=1e-4)
