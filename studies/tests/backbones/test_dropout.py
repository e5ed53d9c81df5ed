# SPDX-License-Identifier: Apache-2.0
"""Dropout: how much stays, what it becomes, and the same in forward and backward."""

import numba
import numpy as np
import pytest
import torch

from legcf.graph.operator import Operator
from legcf_studies.backbones.dropout import dropped, thinned
from legcf_studies.backbones.layered import product
from tests.helpers import csr


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_share_that_stays_and_its_weight(rate: float) -> None:
    rows = torch.ones(400, 250)
    result = dropped(rows, rate, rng())
    stays = result != 0
    assert torch.allclose(result[stays], torch.tensor(1 / (1 - rate)))
    assert stays.float().mean().item() == pytest.approx(1 - rate, abs=0.01)
    assert stays.float().mean(dim=0).std().item() == pytest.approx(np.sqrt(rate * (1 - rate) / 400), rel=0.2)
    assert stays.float().mean(dim=1).std().item() == pytest.approx(np.sqrt(rate * (1 - rate) / 250), rel=0.2)


def test_the_gradient_is_dropped_in_the_same_places() -> None:
    rows = torch.ones(40, 30, requires_grad=True)
    result = dropped(rows, 0.3, rng())
    result.sum().backward()
    assert torch.equal(rows.grad, result)


def test_every_call_drops_others_and_the_seed_decides_all() -> None:
    generator, again = rng(4), rng(4)
    first, second = (dropped(torch.ones(40, 30), 0.3, generator) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(dropped(torch.ones(40, 30), 0.3, again), first)


def test_threads_do_not_change_what_is_dropped() -> None:
    before = numba.get_num_threads()
    results = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        results.append(dropped(torch.ones(300, 200), 0.3, rng()))
    numba.set_num_threads(before)
    assert torch.equal(*results)


def test_nothing_to_drop() -> None:
    rows, operator = torch.ones(2, 2), Operator(csr(np.eye(3)), symmetric=True)
    assert dropped(rows, 0.0, rng()) is rows
    assert dropped(rows, 0.5, None) is rows
    assert thinned(operator, 0.0, rng()) is operator
    assert thinned(operator, 0.5, None) is operator


@pytest.mark.parametrize("symmetric", [True, False])
def test_edges_are_thinned_without_a_new_matrix(symmetric: bool) -> None:
    dense = np.triu(rng().random((60, 60)) < 0.3).astype(np.float32)
    dense = np.maximum(dense, dense.T) if symmetric else dense
    operator = Operator(csr(dense), symmetric)
    thin = thinned(operator, 0.4, rng())
    kept = thin.matrix.toarray()
    assert np.shares_memory(thin.matrix.indices, operator.matrix.indices)
    assert np.allclose(kept[kept != 0], 1 / 0.6)
    assert (kept != 0).sum() / dense.sum() == pytest.approx(0.6, abs=0.06)
    assert (dense[kept != 0] == 1).all()
    rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    pull = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    (product(thin, rows) * pull).sum().backward()
    assert np.allclose(product(thin, rows).detach().numpy(), kept @ rows.detach().numpy(), atol=1e-5)
    assert np.allclose(rows.grad.numpy(), kept.T @ pull.numpy(), atol=1e-5)
