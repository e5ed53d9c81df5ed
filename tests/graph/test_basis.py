# SPDX-License-Identifier: Apache-2.0
"""Both kinds of basis give the same vectors and the same gradient as propagating step by step."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.backbones.history import History, HistoryConfig
from legcf.graph.adjacency import bipartite, expanded
from legcf.graph.basis import DenseBasis, SparseBasis, build_basis, dense_basis
from tests.helpers import assigned_graphs, random_interactions


@given(drawn=assigned_graphs(), seed=st.integers(0, 1000))
def test_sparse_and_dense_agree_in_value_and_gradient(drawn, seed):  # type: ignore[no-untyped-def]
    train, assignment = drawn
    selection = sp.vstack([assignment.to_csr(), sp.identity(assignment.num_buckets, format="csr")], format="csr")
    backbone = History(HistoryConfig(), width=3)
    operator = backbone.operator(expanded(bipartite(train), assignment.to_csr()), train.num_users, train.num_items)
    sparse = SparseBasis((operator.matrix @ selection).tocsr().astype(np.float32))
    dense = DenseBasis(dense_basis(operator, selection.astype(np.float32), backbone.coefficients(), 64.0))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, selection.shape[0], (7,), generator=generator)
    found = []
    for basis in (sparse, dense):
        theta = torch.randn(
            assignment.num_buckets, 3, generator=torch.Generator().manual_seed(seed), requires_grad=True
        )
        vectors = basis.rows_times(rows, theta)
        (vectors * torch.arange(vectors.numel()).view_as(vectors)).sum().backward()
        found.append((vectors.detach(), theta.grad))
        assert torch.allclose(basis.times(theta).detach()[rows], vectors.detach(), atol=1e-5)
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-3)


@pytest.mark.parametrize(("density", "kind"), [(0.01, SparseBasis), (0.9, DenseBasis)])
def test_one_hop_stays_sparse_only_where_it_is(density, kind):  # type: ignore[no-untyped-def]
    train = random_interactions(60, 80, density, seed=3)
    backbone = History(HistoryConfig(), width=3)
    operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
    columns = np.random.default_rng(0).integers(0, 40, 140)
    selection = sp.csr_matrix((np.ones(140, dtype=np.float32), columns, np.arange(141)), shape=(140, 40))
    assert isinstance(build_basis(operator, selection, backbone.coefficients(), 64.0), kind)
