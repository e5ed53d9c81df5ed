# SPDX-License-Identifier: Apache-2.0
"""LR-GCCF: the layers of a linear propagation with self-loops, side by side."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite
from legcf.testing.backbones import INPUT_WIDTH, made, propagated, rows_for
from tests.helpers import dense_bipartite, dense_normalised, graphs, random_interactions


def dense_operator(train: Interactions) -> np.ndarray:
    adjacency = dense_bipartite(train)
    return dense_normalised(adjacency + np.eye(len(adjacency)))


@given(graphs(), st.integers(0, 4))
def test_block_l_is_the_l_th_power(train: Interactions, layers: int) -> None:
    rows = rows_for(train)
    vectors = propagated(made("lr-gccf", layers=layers), train, rows).numpy()
    wanted = rows.numpy().astype(np.float64)
    for block in np.split(vectors, layers + 1, axis=1):
        assert np.allclose(block, wanted, atol=1e-5)
        wanted = dense_operator(train) @ wanted


@given(graphs())
def test_the_operator(train: Interactions) -> None:
    """Symmetric, its own weight 1 / (d + 1), eigenvalues in (−1, 1] with D̃^1/2 · 1 at 1."""
    matrix = made("lr-gccf").operator(bipartite(train), train.num_users, train.num_items).matrix.toarray()
    degrees = dense_bipartite(train).sum(axis=1) + 1
    assert np.allclose(matrix, matrix.T)
    assert np.allclose(matrix.diagonal(), 1 / degrees, atol=1e-6)
    values = np.linalg.eigvalsh(matrix.astype(np.float64))
    assert values.min() > -1
    assert values.max() < 1 + 1e-5
    assert np.allclose(matrix @ np.sqrt(degrees), np.sqrt(degrees), atol=1e-5)


def test_a_node_without_pairs_is_the_same_in_every_layer() -> None:
    train = Interactions.empty(2, 2)
    vectors = propagated(made("lr-gccf", layers=2), train, rows_for(train))
    assert torch.equal(vectors, rows_for(train).repeat(1, 3))


def test_a_score_is_the_sum_of_the_scores_of_the_layers() -> None:
    train = random_interactions(5, 6, 0.4, seed=3)
    vectors = propagated(made("lr-gccf", layers=2), train, rows_for(train))
    blocks = vectors.split(INPUT_WIDTH, dim=1)
    assert torch.allclose(vectors @ vectors.T, sum(block @ block.T for block in blocks), atol=1e-5)


def test_transforms_start_as_the_identity_and_act_a_layer_after_the_other() -> None:
    train = random_interactions(5, 6, 0.4, seed=4)
    rows = rows_for(train)
    backbone = made("lr-gccf", layers=2, transform=True)
    assert torch.allclose(
        propagated(backbone, train, rows), propagated(made("lr-gccf", layers=2), train, rows), atol=1e-6
    )
    assert sum(parameter.numel() for parameter in backbone.parameters()) == 2 * INPUT_WIDTH**2
    assert backbone.coefficients() is None
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
    first, second = (parameter.detach().numpy() for parameter in backbone.parameters())
    hop = dense_operator(train) @ rows.numpy() @ first
    wanted = np.concatenate([rows.numpy(), hop, dense_operator(train) @ hop @ second], axis=1)
    assert np.allclose(propagated(backbone, train, rows).detach().numpy(), wanted, atol=1e-5)
