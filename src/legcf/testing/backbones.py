# SPDX-License-Identifier: Apache-2.0
"""Check what every backbone promises (`backbones/base.py`)."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf.backbones.base import Backbone
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite
from legcf.testing.graphs import graphs, random_interactions
from legcf.training.registry import BACKBONES, resolve

INPUT_WIDTH = 4


def made(name: str, **options: Any) -> Backbone[Any]:
    config = resolve("full", backbone=name, overrides={"backbone": options}).backbone
    backbone = BACKBONES[name](config, INPUT_WIDTH)
    backbone.initialise(np.random.default_rng(0))
    return backbone


def rows_for(train: Interactions, seed: int = 0) -> torch.Tensor:
    nodes = train.num_users + train.num_items
    return torch.randn(nodes, INPUT_WIDTH, generator=torch.Generator().manual_seed(seed))


def propagated(backbone: Backbone[Any], train: Interactions, rows: torch.Tensor) -> torch.Tensor:
    return backbone.propagate(backbone.operator(bipartite(train), train.num_users, train.num_items), rows)


class BackboneContract:
    """Inherit this and set `name` to the backbone's."""

    name: ClassVar[str]

    @pytest.fixture(scope="class")
    def backbone_name(self) -> str:
        return self.name

    def test_says_what_it_is(self, backbone_name: str) -> None:
        assert BACKBONES[backbone_name].summary
        assert BACKBONES[backbone_name].citation

    @settings(deadline=None)
    @given(train=graphs())
    def test_any_graph_gives_finite_rows(self, backbone_name: str, train: Interactions) -> None:
        backbone = made(backbone_name)
        vectors = propagated(backbone, train, rows_for(train))
        assert vectors.shape == (train.num_users + train.num_items, sum(backbone.config.block_widths(INPUT_WIDTH)))
        assert torch.isfinite(vectors).all()

    @settings(deadline=None)
    @given(train=graphs(), seed=st.integers(0, 1000))
    def test_numbering_of_users_does_not_matter(self, backbone_name: str, train: Interactions, seed: int) -> None:
        torch.manual_seed(0)
        backbone = made(backbone_name)
        order = np.random.default_rng(seed).permutation(train.num_users)
        moved = Interactions.from_pairs(order[train.users()], train.items, train.num_users, train.num_items)
        new_row = torch.from_numpy(np.concatenate([order, train.num_users + np.arange(train.num_items)]))
        rows = rows_for(train)
        shuffled = torch.empty_like(rows)
        shuffled[new_row] = rows
        before, after = propagated(backbone, train, rows), propagated(backbone, moved, shuffled)
        assert torch.allclose(after[new_row], before, atol=1e-5)

    def test_gradient_by_finite_differences(self, backbone_name: str) -> None:
        """Along a random direction, of the rows and of every parameter at once."""
        torch.manual_seed(0)
        train, backbone = random_interactions(5, 6, 0.4, seed=1), made(backbone_name)
        rows = rows_for(train).requires_grad_()
        inputs = [rows, *backbone.parameters()]
        pull = torch.randn(propagated(backbone, train, rows).shape)
        directions = [torch.randn(tensor.shape) for tensor in inputs]
        gradients = torch.autograd.grad((propagated(backbone, train, rows) * pull).sum(), inputs)
        slope = torch.stack([(gradient * to).sum() for gradient, to in zip(gradients, directions, strict=True)]).sum()
        values, step = [], 2e-3
        with torch.no_grad():
            for move in (step, -2 * step):
                for tensor, direction in zip(inputs, directions, strict=True):
                    tensor += move * direction
                values.append((propagated(backbone, train, rows) * pull).sum())
        assert torch.isclose((values[0] - values[1]) / (2 * step), slope, rtol=1e-2, atol=1e-2)

    @settings(deadline=None)
    @given(train=graphs(), seed=st.integers(0, 1000))
    def test_rows_of_a_batch_are_rows_of_all(self, backbone_name: str, train: Interactions, seed: int) -> None:
        """Compare in value and in gradient, also where a backbone's parameters are not as they start."""
        rng = np.random.default_rng(seed)
        num_nodes = train.num_users + train.num_items
        nodes = torch.from_numpy(rng.permutation(num_nodes)[: rng.integers(1, num_nodes + 1)])
        transforms = "transform" in BACKBONES[backbone_name].Config.model_fields and seed % 2
        backbone = made(backbone_name, **{"transform": True} if transforms else {})
        operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
        rows = rows_for(train).requires_grad_()
        inputs = [rows, *backbone.parameters()]
        some, every = backbone.propagate(operator, rows, nodes=nodes), backbone.propagate(operator, rows)[nodes]
        pull = torch.randn(some.shape, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(some, every, atol=1e-5)
        left, right = (torch.autograd.grad((vectors * pull).sum(), inputs) for vectors in (some, every))
        assert all(torch.allclose(*both, atol=1e-4) for both in zip(left, right, strict=True))

    def test_users_hear_only_of_their_items_in_one_layer(self, backbone_name: str) -> None:
        """Change one of two components: the other stays as it is."""
        train = Interactions.from_pairs(np.array([0, 1]), np.array([0, 1]), 2, 2)
        torch.manual_seed(0)
        backbone = made(backbone_name)
        rows = rows_for(train)
        changed = rows.clone()
        changed[[0, 2]] += 1
        before, after = propagated(backbone, train, rows), propagated(backbone, train, changed)
        assert torch.allclose(before[[1, 3]], after[[1, 3]], atol=1e-6)

    def test_a_node_without_pairs_hears_of_nobody(self, backbone_name: str) -> None:
        train = Interactions.from_pairs(np.array([0, 1]), np.array([0, 0]), 3, 2)
        backbone, rows = made(backbone_name), rows_for(train)
        changed = rows.clone()
        changed[[0, 1, 3]] += 1
        before, after = propagated(backbone, train, rows), propagated(backbone, train, changed)
        assert torch.equal(before[[2, 4]], after[[2, 4]])

    def test_no_layers_change_nothing(self, backbone_name: str) -> None:
        if "layers" not in BACKBONES[backbone_name].Config.model_fields:
            pytest.skip(f"{backbone_name} has no option `layers`.")
        train = random_interactions(4, 5, 0.5, seed=0)
        backbone = made(backbone_name, layers=0)
        assert torch.equal(propagated(backbone, train, rows_for(train)), rows_for(train))
        coefficients = backbone.coefficients()
        assert coefficients is not None
        assert np.array_equal(coefficients, [[1]])
        assert not backbone.config.weighs_added_nodes

    def test_nothing_is_dropped_in_evaluation(self, backbone_name: str) -> None:
        rates = [key for key in BACKBONES[backbone_name].Config.model_fields if "dropout" in key]
        train = random_interactions(8, 9, 0.5, seed=0)
        rows = rows_for(train)
        plain = propagated(made(backbone_name, **dict.fromkeys(rates, 0.0)), train, rows)
        for rate in rates:
            backbone = made(backbone_name, **(dict.fromkeys(rates, 0.0) | {rate: 0.5}))
            operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
            seen = [backbone.propagate(operator, rows, np.random.default_rng(seed)) for seed in (1, 1, 2)]
            assert torch.equal(seen[0], seen[1])
            assert not torch.equal(seen[0], seen[2])
            assert not torch.equal(seen[0], plain)
            assert torch.equal(backbone.propagate(operator, rows), plain)
            assert isinstance(backbone, torch.nn.Module), "what drops is a module of torch"
            backbone.eval()
            assert torch.equal(backbone.propagate(operator, rows, np.random.default_rng(1)), plain)

    def test_parameters_come_from_the_generator_alone(self, backbone_name: str) -> None:
        states = []
        for seed in (0, 1, 5, 6):
            torch.manual_seed(seed)
            backbone = made(backbone_name)
            states.append(backbone.state_dict() if isinstance(backbone, torch.nn.Module) else {})
        assert all(torch.equal(state[key], value) for state in states for key, value in states[0].items())

    def test_coefficients_say_what_propagate_does(self, backbone_name: str) -> None:
        backbone = made(backbone_name)
        coefficients = backbone.coefficients()
        if coefficients is None:
            pytest.skip(f"{backbone_name} is not linear.")
        train = random_interactions(5, 6, 0.4, seed=2)
        rows = rows_for(train)
        operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
        power, expected = rows.numpy().astype(np.float64), np.zeros((11, len(coefficients) * INPUT_WIDTH))
        for term in coefficients.T:
            expected += np.concatenate([weight * power for weight in term], axis=1)
            power = operator.matrix @ power
        assert np.allclose(backbone.propagate(operator, rows).numpy(), expected, atol=1e-5)
