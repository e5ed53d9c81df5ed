# SPDX-License-Identifier: Apache-2.0
"""LightRec's stages."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.registry import resolve
from legcf_studies.methods.composed.lightrec import LightRec
from legcf_studies.methods.recipes.quantising import residual_codebooks
from tests.helpers import planted
from tests.training.sessions import session, stopped


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(**options: Any) -> RunConfig:
    method = {"dim": 8, "books": 2, "codewords": 6, "teacher_epochs": 3, "code_epochs": 3, "recode_every": 2, **options}
    training = {"epochs": 3, "batch_size": 128, "checkpoint_seconds": 0}
    return resolve("lightrec", overrides={"method": method, "training": training})


def test_a_teacher_then_codes_then_codewords_alone(dataset: Dataset) -> None:
    seen: dict[str, dict[str, torch.Tensor]] = {}

    def keep(line: dict[str, Any]) -> None:
        seen[f"{line['stage']}{line['epoch']}"] = {key: value.clone() for key, value in layer.state_dict().items()}

    running = session(dataset, configured(similarity="bilinear"), on_epoch=keep)
    layer = cast(LightRec, running.model.layer)
    running.run()
    assert torch.equal(seen["teach1"]["codebook"], seen["teach3"]["codebook"])
    assert not torch.equal(seen["teach1"]["teacher"], seen["teach3"]["teacher"])
    assert torch.equal(seen["teach3"]["teacher"], seen["code3"]["teacher"])
    for name in ("codebook", "similarity"):
        assert not torch.equal(seen["code0"][name], seen["code3"][name])
    assert torch.equal(seen["tune0"]["codes"], seen["tune3"]["codes"])
    assert not torch.equal(seen["tune0"]["codebook"], seen["tune3"]["codebook"])
    assert layer.frozen
    assert running.model.on_basis
    assert running.state.best_at[0] == 2
    assert all(0 < line["codewords_used"] <= 12 for line in running.lines if "codewords_used" in line)


def test_codes_can_be_the_end(dataset: Dataset) -> None:
    config = configured()
    config = config.model_copy(update={"training": config.training.model_copy(update={"epochs": 0})})
    running = session(dataset, config)
    running.run()
    assert cast(LightRec, running.model.layer).frozen


@pytest.mark.parametrize("stage", ["teach", "code", "tune"])
def test_a_stopped_run_goes_on_to_the_same_end(stage: str, dataset: Dataset, tmp_path: Path) -> None:
    whole = session(dataset, configured())
    whole.run()
    stopped(dataset, configured(), tmp_path, lambda run: (run.lines[-1]["stage"], run.lines[-1]["epoch"]) == (stage, 2))
    resumed = session(dataset, configured(), tmp_path)
    assert resumed.resume()
    resumed.run()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_residual_codebooks_leave_less_and_less() -> None:
    vectors = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    books = residual_codebooks(vectors, 3, 10, np.random.default_rng(0))
    assert books.shape == (30, 5)
    residual, left = vectors, [vectors.square().mean()]
    for words in books.split(10):
        residual = residual - words[torch.cdist(residual, words).argmin(dim=1)]
        left.append(residual.square().mean())
    assert left == sorted(left, reverse=True)
    assert left[3] < 0.2 * left[0]
