# SPDX-License-Identifier: Apache-2.0
"""A codebook learned by the formula is what torch learns."""

from pathlib import Path

import numpy as np
import pytest

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.build import learns_codebook
from legcf.training.learning.codebook import CodebookLearner
from legcf.training.loop import Session
from legcf.training.model import GraphModel
from legcf.training.registry import METHODS, resolve
from legcf.training.session import TrainingOptions
from tests.helpers import planted
from tests.training.sessions import session

SMALL = {"c": 12, "dim": 8, "t": 2, "als": {"alpha": 10.0}}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(80, 60)


def configured(**training: object) -> RunConfig:
    settings = {"method": SMALL, "training": {"batch_size": 256, "negatives": 16, "epochs": 2, **training}}
    return resolve(preset="items-only", overrides=settings)


def by_torch(running: Session) -> Session:
    """The same session of a model of torch with the same values."""
    config = running.config
    method = METHODS[config.method.name]
    layer = method.trained_layer(config.method, running.dataset.num_users, running.dataset.num_items)
    model = GraphModel(layer, running.model.backbone, running.dataset.train, config.training)
    model.load_state_dict(running.model.state_dict())
    model.rebuild()
    return Session(model, running.dataset, config, running.stages, np.random.default_rng(0), TrainingOptions())


@pytest.mark.parametrize("exclude_target", [True, False])
def test_every_step_is_that_of_torch(dataset: Dataset, exclude_target: bool) -> None:
    config = configured(exclude_target=exclude_target)
    assert learns_codebook(config)
    formula = session(dataset, config)
    assert isinstance(formula.learner, CodebookLearner)
    torch = by_torch(formula)
    for number, batch in enumerate(formula.sampler.epoch(np.random.default_rng(1))):
        for running in (formula, torch):
            running.set_learning_rate(number / 20)
        losses = formula.step(batch), torch.step(batch)
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        codebooks = [running.model.layer.array("codebook") for running in (formula, torch)]
        np.testing.assert_allclose(*codebooks, rtol=2e-4, atol=2e-6)
    assert number > 1


def test_goes_on_from_a_checkpoint_as_if_never_stopped(dataset: Dataset, tmp_path: Path) -> None:
    config = configured(checkpoint_seconds=0.0, epochs=4)
    whole = session(dataset, config)
    whole.run()
    folder = tmp_path / "run"
    folder.mkdir()
    stopped = session(dataset, config.model_copy(), folder, on_epoch=_stop_after(2))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    resumed = session(dataset, config, folder)
    assert resumed.resume()
    resumed.run()
    np.testing.assert_array_equal(*(one.model.layer.array("codebook") for one in (whole, resumed)))


def _stop_after(epochs: int):  # type: ignore[no-untyped-def]
    def stop(line: dict[str, object]) -> None:
        if line["epoch"] == epochs:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("training", [{"l2": 0.1}, {"gradient_clip": 1.0}, {"temperature": 0.5}, {"loss": "bpr"}])
def test_anything_else_is_for_torch(training: dict[str, object]) -> None:
    assert not learns_codebook(configured(**training))
