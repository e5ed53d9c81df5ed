# SPDX-License-Identifier: Apache-2.0
"""DHE: codes that no one stores, and the network that reads them."""

import hashlib
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.composed.dhe import DeepHash, DheConfig
from legcf_studies.methods.composed.hashing import hashed
from tests.helpers import planted

GOWALLA = (29_858, 40_981)


def made(users: int = 60, items: int = 40, seed: int = 0, **options: Any) -> DeepHash:
    layer = DeepHash(DheConfig(**{"dim": 8, "hashes": 16, "hidden": 10, **options}), users, items)
    layer.initialise(planted(4, 4).train, np.random.default_rng(seed))
    return layer


def test_codes_are_the_same_on_every_machine() -> None:
    codes = hashed(torch.arange(100), made(seed=7).hash_constants, 10**6)
    digest = hashlib.sha256(codes.numpy().astype("<i8").tobytes()).hexdigest()
    assert digest == "63a69927660e66bc91395eec45195b279101f5d2dd6a133ea6bac77a94704f9c"


@pytest.mark.parametrize(("encoding", "variance"), [("uniform", 1 / 3), ("gaussian", 1.0)])
def test_codes_are_spread_as_said(encoding: str, variance: float) -> None:
    layer = made(600, 400, hashes=256, encoding=encoding)
    codes = layer.encoding(torch.arange(1000))
    assert codes.shape == (1000, 256)
    assert abs(float(codes.mean())) < 0.01
    assert abs(float(codes.var()) - variance) < 0.02 * variance
    assert len(torch.unique(codes, dim=0)) == 1000
    assert len(torch.unique(codes.T, dim=0)) == 256
    if encoding == "uniform":
        assert codes.abs().max() <= 1


def test_even_few_codes_are_distinct() -> None:
    assert len(torch.unique(made(6_000, 4_000, hashes=2).encoding(torch.arange(10_000)), dim=0)) == 10_000


def test_hashes_are_not_learned() -> None:
    layer = made()
    layer.table().sum().backward()
    assert not layer.hash_constants.requires_grad
    assert "hash_constants" not in dict(layer.named_parameters())
    assert "hash_constants" in layer.state_dict()


def test_a_row_is_the_same_in_any_company_in_training_and_after() -> None:
    layer = made()
    table = layer.table()
    layer.eval()
    assert torch.equal(layer.table(), table)
    assert torch.equal(layer.rows(torch.tensor([5])), layer.rows(torch.tensor([5, 6, 7]))[:1])


def test_new_weights_bring_their_own_codes() -> None:
    layer, other = made(seed=0), made(seed=1)
    assert not torch.equal(layer.table(), other.table())
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer.table(), other.table())


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_what_is_counted(layers: int) -> None:
    k, w, d = 16, 10, 8
    layer = made(layers=layers)
    wanted = k * w + w + (layers - 1) * (w * w + w) + w * d + d + 2 * layers * w
    assert layer.num_params() == layer.total_trainable() == wanted
    assert layer.storage_bytes() == 4 * wanted + 2 * 8 * k
    assert made(600, 400, layers=layers).num_params() == wanted
    codes = made(layers=layers, count="codes")
    assert (codes.num_params(), codes.total_trainable()) == (100 * k, wanted)


def test_entries_start_as_large_as_lightgcns_and_without_a_common_vector() -> None:
    table = made(600, 400).table().detach()
    assert abs(float(table.std()) - 0.1) < 1e-3
    assert float(table.mean(dim=0).abs().max()) < 1e-5


@pytest.mark.parametrize(("hashes", "layers", "width"), [(1024, 2, 156), (1024, 5, 123), (128, 3, 261)])
def test_sizes_from_the_budget(hashes: int, layers: int, width: int) -> None:
    settings = DeepHash.sized(DheConfig(hashes=hashes, layers=layers, budget="legcf"), *GOWALLA)
    assert settings.hidden == width  # type: ignore[attr-defined]
    assert DeepHash(settings, *GOWALLA).num_params() <= 205_678  # type: ignore[arg-type]


def test_codes_within_the_budget() -> None:
    settings = DeepHash.sized(DheConfig(count="codes", budget="legcf"), *GOWALLA)
    assert settings.hashes == 2  # type: ignore[attr-defined]
    paper = resolve("dhe", preset="paper").method
    assert DeepHash(paper, *GOWALLA).num_params() == 850_068  # the LEGCF paper's Table 2: 0.85m


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="141 are the least"):  # (128 + 1) + 2·(1 + 1) + (1 + 1) + 2·3
        made(budget=20, hidden=None, hashes=128, dim=1, layers=3)
    with pytest.raises(UserError, match="too few"):
        made(budget=100)
    with pytest.raises(UserError, match="100 are the least"):
        made(budget=99, count="codes")
    for options in ({"hashes": 0}, {"layers": 0}, {"encoding": "gaussian", "hashes": 7}):
        with pytest.raises(UserError, match="is not possible"):
            resolve("dhe", overrides={"method": options})
