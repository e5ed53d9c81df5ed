# SPDX-License-Identifier: Apache-2.0
"""The propagated basis is exact: values, gradients, rows in batches, and whatever the memory cap."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.assignment.assignment import Assignment
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite, expanded, normalised
from legcf.graph.basis import dense_basis, polynomial
from legcf.graph.operator import Operator
from tests.helpers import assigned_graphs, dense_bipartite, dense_normalised, graphs, layer_mean, random_interactions

Assigned = tuple[Interactions, Assignment]
WIDTH = 3


def mean_of(layers: int) -> np.ndarray:
    return np.full((1, layers + 1), 1 / (layers + 1), dtype=np.float32)


def setting(assigned: Assigned) -> tuple[Operator, sp.csr_matrix]:
    """The paper's operator and B = [S; I]."""
    train, assignment = assigned
    chosen = assignment.to_csr()
    own = sp.identity(assignment.num_buckets, dtype=np.float32, format="csr")
    operator = Operator(normalised(expanded(bipartite(train), chosen)), symmetric=True)
    return operator, sp.vstack([chosen, own], format="csr")


def any_operator(seed: int, size: int = 17) -> Operator:
    matrix = sp.random(size, size, 0.2, format="csr", dtype=np.float32, random_state=seed)
    return Operator(matrix, symmetric=False)


@given(assigned_graphs(), st.integers(0, 4), st.integers(0, 1000))
def test_basis_equals_stepwise_in_value_and_gradient(assigned: Assigned, layers: int, seed: int) -> None:
    operator, selection = setting(assigned)
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(selection.shape[1], WIDTH, generator=generator)
    pull = torch.randn(selection.shape[0], WIDTH, generator=generator)

    on_basis = theta.clone().requires_grad_()
    made = torch.from_numpy(dense_basis(operator, selection, mean_of(layers), 1024.0))[:, 0]
    vectors = made @ on_basis
    (vectors * pull).sum().backward()

    stepwise = theta.clone().requires_grad_()
    rows = torch.from_numpy(selection.toarray()) @ stepwise
    reference = polynomial(operator, rows, mean_of(layers))
    (reference * pull).sum().backward()

    assert torch.isfinite(vectors).all()
    assert torch.allclose(vectors, reference, atol=1e-5)
    assert torch.allclose(on_basis.grad, stepwise.grad, atol=1e-4)
    wanted = layer_mean(operator.matrix.toarray().astype(np.float64), rows.detach().numpy(), layers)
    assert np.allclose(reference.detach().numpy(), wanted, atol=1e-5)


@given(assigned_graphs(), st.integers(0, 3), st.sampled_from([1e-9, 1e-4, 1e-3]))
def test_the_memory_cap_does_not_change_the_basis(assigned: Assigned, layers: int, cap: float) -> None:
    operator, selection = setting(assigned)
    assert np.array_equal(
        dense_basis(operator, selection, mean_of(layers), cap),
        dense_basis(operator, selection, mean_of(layers), 1024.0),
    )


def test_a_basis_over_the_cap_is_kept_in_a_file(tmp_path: Path) -> None:
    train = random_interactions(9, 7, 0.4, seed=1)
    assignment = Assignment(np.arange(16, dtype=np.int32)[:, None] % 4, np.ones((16, 1), np.float32), 4)
    operator, selection = setting((train, assignment))
    spilled = dense_basis(operator, selection, mean_of(2), 1e-6, tmp_path / "run" / "basis.npy")
    assert isinstance(spilled, np.memmap)
    assert (tmp_path / "run" / "basis.npy").exists()
    assert np.array_equal(spilled, dense_basis(operator, selection, mean_of(2), 1024.0))


@given(graphs(), st.integers(0, 3))
def test_without_assignment_it_is_lightgcn_and_buckets_keep_their_share(train: Interactions, layers: int) -> None:
    entities, buckets = train.num_users + train.num_items, 3
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((entities + buckets, WIDTH)).astype(np.float32)
    operator = Operator(
        normalised(expanded(bipartite(train), sp.csr_matrix((entities, buckets), dtype=np.float32))), symmetric=True
    )
    vectors = operator.polynomial(rows, mean_of(layers))
    plain = layer_mean(dense_normalised(dense_bipartite(train)), rows[:entities], layers)
    assert np.allclose(vectors[:entities], plain, atol=1e-5)
    assert np.allclose(vectors[entities:], rows[entities:] / (layers + 1), atol=1e-6)


@given(st.integers(0, 1000), st.integers(1, 70))
def test_products_equal_scipys(seed: int, width: int) -> None:
    operator = any_operator(seed)
    dense = np.random.default_rng(seed).standard_normal((17, width)).astype(np.float32)
    assert np.allclose(operator.times(dense), operator.matrix @ dense, atol=1e-5)
    assert np.allclose(operator.transposed.times(dense), operator.matrix.T @ dense, atol=1e-5)


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 3))
def test_adjoint_is_the_transpose(seed: int, terms: int, blocks: int) -> None:
    """⟨P x, y⟩ = ⟨x, Pᵀ y⟩, with several blocks and an operator that is not symmetric."""
    operator, rng = any_operator(seed), np.random.default_rng(seed)
    coefficients = rng.standard_normal((blocks, terms)).astype(np.float32)
    x = rng.standard_normal((17, WIDTH)).astype(np.float32)
    y = rng.standard_normal((17, blocks * WIDTH)).astype(np.float32)
    before = x.copy()
    left = (operator.polynomial(x, coefficients).astype(np.float64) * y).sum()
    right = (x.astype(np.float64) * operator.adjoint_polynomial(y, coefficients)).sum()
    assert np.isclose(left, right, rtol=1e-3, atol=1e-3)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("coefficients", [[[1.0]], [[0.5, 0.5]], [[0.25] * 4], [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]])
def test_some_rows_are_those_of_the_whole_and_so_is_their_gradient(
    coefficients: list[list[float]], symmetric: bool
) -> None:
    rng = np.random.default_rng(3)
    matrix = sp.random(30, 30, 0.2, "csr", np.float32, rng)
    matrix = (matrix + matrix.T).tocsr() if symmetric else matrix
    operator, weights = Operator(matrix, symmetric), np.array(coefficients, dtype=np.float32)
    wanted = rng.permutation(30)[:7]
    dense = torch.from_numpy(rng.random((30, 5), dtype=np.float32)).requires_grad_()
    again = dense.detach().clone().requires_grad_()
    whole, some = polynomial(operator, dense, weights)[wanted], polynomial(operator, again, weights, wanted)
    torch.testing.assert_close(some, whole)
    whole.square().sum().backward()
    some.square().sum().backward()
    torch.testing.assert_close(again.grad, dense.grad)


def test_polynomial_is_linear() -> None:
    operator, rng = any_operator(3), np.random.default_rng(3)
    a, b = rng.standard_normal((2, 17, WIDTH)).astype(np.float32)
    both = operator.polynomial(2 * a - 3 * b, mean_of(3))
    apart = 2 * operator.polynomial(a, mean_of(3)) - 3 * operator.polynomial(b, mean_of(3))
    assert np.allclose(both, apart, atol=1e-4)


def test_wide_and_hub_heavy_graphs_are_shared_among_threads_without_loss() -> None:
    """Chunks of equal edges: one row with nearly all edges, many rows with none."""
    dense = np.zeros((500, 500), dtype=np.float32)
    dense[3] = 1
    dense[:, 3] = 1
    operator = Operator(sp.csr_matrix(dense), symmetric=True)
    rows = np.random.default_rng(0).standard_normal((500, 9)).astype(np.float32)
    assert np.allclose(operator.times(rows), dense @ rows, atol=1e-3)
