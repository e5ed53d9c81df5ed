# SPDX-License-Identifier: Apache-2.0
"""The contract of every embedding layer in the registry; a new method is tested here as soon as it has its line."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.assignment.assignment import Assignment
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.embeddings.legcf import Legcf, LegcfConfig
from legcf.factorisation.als import factorise
from legcf.graph.adjacency import bipartite
from legcf.testing.methods import MethodContract, configured
from legcf.training.model import GraphModel
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model
from tests.helpers import dense_bipartite, dense_expanded, dense_normalised, layer_mean, planted

SMALL: dict[str, Any] = {"c": 10, "dim": 8, "t": 2}  # of LEGCF, on a graph of 100 nodes


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Planted communities, with two users and two items that have no pairs."""
    return planted(52, 48, cold=2)


@pytest.mark.parametrize("method", sorted(METHODS.built_in))
class TestMethods(MethodContract):
    pass


def legcf(dataset: Dataset, **options: Any) -> Legcf:
    config = LegcfConfig(**{**SMALL, **options})
    layer = Legcf(config, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


class TestLegcf:
    @pytest.mark.parametrize(
        ("users", "items", "params"), [(29_858, 40_981, 205_678), (71_135, 45_063, 296_396), (52_643, 91_599, 352_484)]
    )
    def test_the_published_sizes(self, users: int, items: int, params: int) -> None:
        layer = Legcf(LegcfConfig(c=500, dim=128, t=2), users, items)
        assert layer.num_params() == params == 500 * 128 + 2 * (users + items)
        assert layer.storage_bytes() == 4 * params + 2 * 2 * (users + items)

    def test_a_bias_is_stored_but_not_counted(self, dataset: Dataset) -> None:
        plain, biased = legcf(dataset), legcf(dataset, item_bias=True)
        assert plain.num_params() == biased.num_params()
        assert biased.storage_bytes() == plain.storage_bytes() + 4 * dataset.num_items
        assert biased.total_trainable() == plain.total_trainable() + dataset.num_items

    def test_eq_1(self, dataset: Dataset) -> None:
        layer = legcf(dataset, t=3)
        wanted = layer.assignment.to_csr().toarray() @ layer.codebook.detach().numpy()
        assert np.allclose(layer.table().detach().numpy(), wanted, atol=1e-6)
        assert np.allclose(legcf(dataset, t=3, tanh=True).table().detach().numpy(), np.tanh(wanted), atol=1e-6)

    @pytest.mark.parametrize("normalise", ["once", "twice"])
    @pytest.mark.parametrize("layers", [0, 1, 3])
    def test_eq_5_to_9(self, dataset: Dataset, normalise: str, layers: int) -> None:
        config = resolve(
            backbone="lightgcn",
            preset="paper",
            overrides={"method": {**SMALL, "normalise": normalise}, "backbone": {"layers": layers}},
        )
        model = build_model(config, dataset, np.random.default_rng(0), None)
        layer = model.layer
        assert isinstance(layer, Legcf)
        adjacency = dense_bipartite(dataset.train)
        inner = dense_normalised(adjacency) if normalise == "twice" else adjacency
        chosen = layer.assignment.to_csr().toarray().astype(np.float64)
        operator = dense_normalised(dense_expanded(inner, chosen))
        codebook = layer.codebook.detach().numpy().astype(np.float64)
        wanted = layer_mean(operator, np.concatenate([chosen @ codebook, codebook]), layers)
        assert np.allclose(model.entity_vectors(), wanted[:100], atol=1e-5)
        assert np.allclose(model.meta_vectors(), wanted[100:], atol=1e-5)

    def test_the_twice_normalised_graph_at_the_start(self, dataset: Dataset) -> None:
        """official_differences.md: rows of [Â, S] sum to Â's row sums + 1, since rows of S sum to 1."""
        graph = legcf(dataset, normalise="twice").graph(bipartite(dataset.train))
        inner = dense_normalised(dense_bipartite(dataset.train)).sum(axis=1)
        assert np.allclose(np.asarray(graph.sum(axis=1)).ravel()[:100], inner + 1, atol=1e-5)

    def test_a_bias_is_added_to_every_score_of_its_item(self, dataset: Dataset) -> None:
        config = resolve(overrides={"method": {**SMALL, "item_bias": True}})
        model = build_model(config, dataset, np.random.default_rng(0), None)
        bias = model.layer.item_bias
        assert bias is not None
        assert np.array_equal(model.ranking().bias, bias.detach().numpy())
        ids = torch.arange(100)
        users, items = model.encode(ids)[:52].detach().numpy(), model.encode(ids)[52:].detach().numpy()
        dot = model.entity_vectors()[:52] @ model.entity_vectors()[52:].T
        assert np.allclose(users @ items.T - dot, np.broadcast_to(bias.detach().numpy(), dot.shape), atol=1e-5)
        model.encode(torch.tensor([0, 52, 99])).sum().backward()
        assert bias.grad is not None
        assert bias.grad[0] == bias.grad[47] == 1
        assert not bias.grad[1:47].any()

    def test_the_assignment_can_be_replaced(self, dataset: Dataset) -> None:
        layer = legcf(dataset)
        layer.assignment = Assignment(np.full((100, 2), 3, np.int32), np.full((100, 2), 0.5, np.float32), 10)
        assert torch.allclose(layer.table(), layer.codebook[3].expand(100, 8))

    def test_c_beyond_the_entities_is_refused(self) -> None:
        with pytest.raises(UserError, match="lower c"):
            Legcf(LegcfConfig(c=11, t=1), 5, 5)

    def test_tanh_rules_out_the_basis(self, dataset: Dataset) -> None:
        assert legcf(dataset, tanh=True).linear_basis() is None
        config = resolve(overrides={"method": {**SMALL, "tanh": True}, "training": {"propagation": "basis"}})
        with pytest.raises(UserError, match="use auto"):
            build_model(config, dataset, np.random.default_rng(0), None)


def test_full_table_counts_everything() -> None:
    layer = METHODS["full"].layer(configured("full").method, 30, 20)
    assert layer.num_params() == 50 * 8
    assert layer.storage_bytes() == 4 * 50 * 8


def test_the_memory_cap_reaches_the_file(dataset: Dataset, tmp_path: Any) -> None:
    config = configured("legcf", memory_cap_mb=1e-3, l2=0.1)  # a penalty, so that torch trains it
    spilled: GraphModel = build_model(config, dataset, np.random.default_rng(0), tmp_path)
    assert list((tmp_path / "checkpoint").glob("basis*.npy"))
    held = build_model(configured("legcf", l2=0.1), dataset, np.random.default_rng(0), None)
    assert np.allclose(spilled.entity_vectors(), held.entity_vectors(), atol=1e-6)


def test_rows_that_are_not_joined_travel_over_the_plain_graph(dataset: Dataset) -> None:
    options = {
        "c": 10,
        "dim": 8,
        "start": "als",
        "signed": True,
        "coded": "items",
        "meta_nodes": False,
        "update": "none",
    }
    config = resolve("legcf", preset="graph", overrides={"method": options})
    model = build_model(config, dataset, np.random.default_rng(0), None)
    assert model.on_basis
    table = model.layer.table().detach().numpy()
    dense = dense_normalised(dense_bipartite(dataset.train))
    assert np.allclose(model.entity_vectors(), layer_mean(dense, table, 3), atol=1e-5)
    assert model.meta_vectors() is None
    with pytest.raises(UserError, match="joined"):
        resolve("legcf", preset="graph", overrides={"method": {"meta_nodes": False}})


def test_a_full_table_can_start_from_a_factorisation(dataset: Dataset) -> None:
    """Scores of the start are those of the factorisation, times the scale, whatever basis both sides share."""
    config = resolve("full", overrides={"method": {"dim": 8, "initial": "als", "score_scale": 10.0}})
    layer: Any = METHODS["full"].layer(config.method, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    users, items = factorise(dataset.train, 8, np.random.default_rng(0), config.method.als)
    table = layer.table()
    assert np.allclose(table[: dataset.num_users] @ table[dataset.num_users :].T, 10 * users @ items.T, atol=1e-3)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_ranking_can_count_less_of_the_lengths(power: float, dataset: Dataset) -> None:
    model = build_model(configured("full"), dataset, np.random.default_rng(0), None)
    plain = model.entity_vectors()
    shortened = model.ranking().with_norm_power(power)
    ranked = np.concatenate([shortened.users, shortened.items])
    plain[: dataset.num_users][dataset.train.user_degrees == 0] = 0  # nothing was learnt of them
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    some = lengths[:, 0] > 1e-6
    assert np.allclose(ranked[some], plain[some] / lengths[some] * lengths[some] ** power, atol=1e-5)
