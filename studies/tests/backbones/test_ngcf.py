# SPDX-License-Identifier: Apache-2.0
"""NGCF: as its code computes it by default, as its paper writes it by option."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.backbones.base import Backbone
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite
from legcf.testing.backbones import INPUT_WIDTH, made, propagated, rows_for
from tests.helpers import dense_bipartite, dense_normalised, graphs, random_interactions

ADJACENCIES = ("norm", "sym", "mean", "mean+I", "plain")


def row_mean(adjacency: np.ndarray) -> np.ndarray:
    return adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)


def dense_operator(adjacency: np.ndarray, kind: str) -> np.ndarray:
    own = np.eye(len(adjacency))
    return {
        "norm": lambda: row_mean(adjacency + own),
        "sym": lambda: dense_normalised(adjacency),
        "mean": lambda: row_mean(adjacency),
        "mean+I": lambda: row_mean(adjacency) + own,
        "plain": lambda: adjacency,
    }[kind]()


def leaky(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 0.2 * values)


def dense_ngcf(backbone: Backbone, train: Interactions, rows: np.ndarray) -> np.ndarray:
    """A layer after the other in float64."""
    config: Any = backbone.config
    operator = dense_operator(dense_bipartite(train), config.adjacency)
    state = {key: value.numpy().astype(np.float64) for key, value in backbone.state_dict().items()}
    rows = rows.astype(np.float64)
    blocks = [rows]
    for layer in range(config.layers):
        weights = {key.split(".")[-1]: value for key, value in state.items() if key.startswith(f"layers.{layer}.")}
        neighbours = operator @ rows
        message = neighbours + rows if config.adjacency == "sym" else neighbours
        own = message @ weights["neighbour_weight"] + weights["neighbour_bias"]
        shared = (rows * neighbours) @ weights["affinity_weight"] + weights["affinity_bias"]
        rows = leaky(own + shared) if config.activation == "joint" else leaky(own) + leaky(shared)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True) if config.normalise else 1
        blocks.append(rows / np.maximum(lengths, 1e-12))
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@given(train=graphs(), layers=st.integers(0, 3), joint=st.booleans(), normalise=st.booleans())
def test_against_dense(adjacency: str, train: Interactions, layers: int, joint: bool, normalise: bool) -> None:
    activation = "joint" if joint else "separate"
    backbone = made("ngcf", layers=layers, adjacency=adjacency, activation=activation, normalise=normalise)
    rows = rows_for(train)
    wanted = dense_ngcf(backbone, train, rows.numpy())
    assert np.allclose(propagated(backbone, train, rows).detach().numpy(), wanted, atol=1e-4, rtol=1e-4)


def test_layers_may_have_widths_of_their_own() -> None:
    train = random_interactions(5, 6, 0.4, seed=1)
    backbone = made("ngcf", layers=2, widths=[3, 2])
    vectors = propagated(backbone, train, rows_for(train))
    assert vectors.shape[1] == INPUT_WIDTH + 3 + 2
    assert np.allclose(vectors.detach().numpy(), dense_ngcf(backbone, train, rows_for(train).numpy()), atol=1e-5)
    with pytest.raises(UserError, match="widths"):
        made("ngcf", layers=3, widths=[3, 2])


@pytest.mark.parametrize(("width", "layers", "parameters"), [(64, 3, 24_960), (128, 3, 99_072), (128, 4, 132_096)])
def test_the_published_sizes(width: int, layers: int, parameters: int) -> None:
    backbone = type(made("ngcf"))(made("ngcf", layers=layers).config, width)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == parameters


@given(graphs())
def test_every_block_but_the_first_has_rows_of_length_one(train: Interactions) -> None:
    vectors = propagated(made("ngcf"), train, rows_for(train))
    first, *others = vectors.split(INPUT_WIDTH, dim=1)
    assert torch.equal(first, rows_for(train))
    for block in others:
        assert torch.allclose(block.norm(dim=1), torch.ones(len(block)), atol=1e-5)


@given(graphs())
def test_rows_of_the_codes_operator_sum_to_one(train: Interactions) -> None:
    operator = made("ngcf").operator(bipartite(train), train.num_users, train.num_items)
    assert np.allclose(operator.matrix.sum(axis=1), 1, atol=1e-6)
    assert np.allclose(operator.transposed.matrix.toarray(), operator.matrix.toarray().T)


def test_nothing_in_gives_nothing_out() -> None:
    """Without biases a row of zeros stays one, also where its length is divided by."""
    train, backbone = random_interactions(4, 5, 0.5, seed=0), made("ngcf")
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if "bias" in name:
                parameter.zero_()
    zeros = torch.zeros(9, INPUT_WIDTH, requires_grad=True)
    vectors = propagated(backbone, train, zeros)
    assert not vectors.any()
    vectors.sum().backward()
    assert torch.isfinite(zeros.grad).all()


def test_without_the_affinity_it_is_a_plain_graph_convolution() -> None:
    train, backbone = random_interactions(4, 5, 0.5, seed=0), made("ngcf", layers=1, normalise=False)
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if name != "layers.0.neighbour_weight":
                parameter.zero_()
    weight = backbone.get_parameter("layers.0.neighbour_weight").detach().numpy()
    wanted = leaky(dense_operator(dense_bipartite(train), "norm") @ rows_for(train).numpy() @ weight)
    assert np.allclose(
        propagated(backbone, train, rows_for(train))[:, INPUT_WIDTH:].detach().numpy(), wanted, atol=1e-5
    )


def test_a_node_without_pairs_hears_itself() -> None:
    train = Interactions.empty(2, 2)
    operator = made("ngcf").operator(bipartite(train), 2, 2)
    assert np.array_equal(operator.matrix.toarray(), np.eye(4))
