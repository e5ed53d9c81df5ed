# SPDX-License-Identifier: Apache-2.0
"""The contract of every embedding layer in the registry; a new method is tested here as soon as it has its line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.assignment.assignment import Assignment
from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.embeddings.base import EmbeddingLayer
from legcf.embeddings.baselines.rowless import Rowless
from legcf.embeddings.composed.legcf import Legcf, LegcfConfig
from legcf.factorisation.als import factorise
from legcf.graph.adjacency import bipartite
from legcf.training import checkpoint
from legcf.training.loop import TrainingOptions
from legcf.training.model import GraphModel
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model, train
from legcf.training.run_folder import load_model
from tests.helpers import dense_bipartite, dense_expanded, dense_normalised, layer_mean, planted

SMALL: dict[str, Any] = {"c": 10, "dim": 8, "t": 2}  # of LEGCF, on a graph of 100 nodes


def configured(name: str, **training: Any) -> RunConfig:
    """Its defaults, on rows of 8; a search that would take long ends with what it has."""
    narrow = {} if issubclass(METHODS[name].layer, Rowless) else {"dim": 8}
    return resolve(name, overrides={"method": narrow, "training": {"max_minutes": 0.03, **training}})


def made(name: str, dataset: Dataset, seed: int = 0) -> EmbeddingLayer:
    layer = METHODS[name].layer(configured(name).method, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(seed))
    return layer


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Planted communities, with two users and two items that have no pairs."""
    return planted(52, 48, cold=2)


@pytest.mark.parametrize("name", sorted(METHODS))
class TestLayerContract:
    def test_says_what_it_is(self, name: str, dataset: Dataset) -> None:
        layer = METHODS[name].layer
        assert layer.summary
        assert layer.citation
        assert {"paper", "default"} <= set(layer.presets)

    def test_presets_resolve_completely(self, name: str, dataset: Dataset) -> None:
        for preset in METHODS[name].layer.presets:
            content = resolve(name, preset=preset).to_json()
            assert content["preset"] == preset
            assert set(METHODS[name].layer.Config.model_fields) == set(content["method"])

    def test_rows_are_rows_of_the_table(self, name: str, dataset: Dataset) -> None:
        layer = made(name, dataset)
        table = layer.table()
        assert table.shape[0] == layer.num_entities == 100
        assert torch.isfinite(table).all()
        ids = torch.tensor([99, 0, 50, 0])
        assert torch.allclose(layer.rows(ids), table[ids], atol=1e-6)
        assert torch.allclose(layer.input_rows()[:100], table)

    def test_rows_and_table_give_the_same_gradient(self, name: str, dataset: Dataset) -> None:
        layer = made(name, dataset)
        ids = torch.tensor([3, 60, 3])
        pull = torch.randn(3, layer.table().shape[1], generator=torch.Generator().manual_seed(0))
        gradients = []
        for rows in (layer.rows(ids), layer.table()[ids]):
            layer.zero_grad()
            (rows * pull).sum().backward()
            gradients.append(
                {key: value.grad.clone() for key, value in layer.named_parameters() if value.grad is not None}
            )
        assert gradients[0].keys() == gradients[1].keys() != set()
        for key, gradient in gradients[0].items():
            assert torch.allclose(gradient, gradients[1][key], atol=1e-5)

    def test_its_linear_form_is_its_input(self, name: str, dataset: Dataset) -> None:
        layer = made(name, dataset)
        linear = layer.linear_basis()
        if linear is None:
            pytest.skip(f"{name} is not linear, or not before it is trained.")
        selection, theta = linear
        rows = selection @ theta.detach().numpy()
        assert np.allclose(rows, layer.input_rows().detach().numpy(), atol=1e-5)

    def test_graph_keeps_entities_first(self, name: str, dataset: Dataset) -> None:
        layer = made(name, dataset)
        adjacency = bipartite(dataset.train)
        graph = layer.graph(adjacency)
        assert graph.shape[0] == graph.shape[1] == layer.input_rows().shape[0]
        assert ((graph[:100, :100] != 0) != (adjacency != 0)).nnz == 0

    def test_bytes_are_those_of_its_file(self, name: str, dataset: Dataset, tmp_path: Path) -> None:
        """Nothing is counted that the file does not hold, and the file holds nothing that is not counted."""
        trained = train(dataset, configured(name, epochs=1, batch_size=128), TrainingOptions(tmp_path, quiet=True))
        layer = trained.model.layer
        groups, _ = checkpoint.load(tmp_path / "model.safetensors")
        stored = {key: value for key, value in groups["model"].items() if key.startswith("layer.")}
        assert layer.storage_bytes() == sum(value.numel() * value.element_size() for value in stored.values())
        rest = [value for key, value in groups["model"].items() if key not in stored]
        others = sum(value.numel() * value.element_size() for value in rest)
        rows, term = trained.ranking.rows, trained.ranking.term
        own = layer.storage_bytes() if rows is None else rows.packed_bytes  # as the model file holds them
        assert trained.metrics["storage_bytes"] == own + others + (0 if term is None else term.storage_bytes())
        assert layer.total_trainable() > 0
        again = load_model(tmp_path).model.layer
        assert torch.equal(again.table(), layer.table())
        assert (again.num_params(), again.storage_bytes()) == (layer.num_params(), layer.storage_bytes())

    def test_state_comes_back(self, name: str, dataset: Dataset) -> None:
        layer = made(name, dataset)
        other = METHODS[name].layer(layer.config, dataset.num_users, dataset.num_items)
        other.load_state_dict({key: value.clone() for key, value in layer.state_dict().items()})
        assert torch.equal(other.table(), layer.table())
        assert (other.graph(bipartite(dataset.train)) != layer.graph(bipartite(dataset.train))).nnz == 0

    def test_the_seed_decides(self, name: str, dataset: Dataset) -> None:
        tables = [made(name, dataset, seed).table() for seed in (1, 1, 2)]
        assert torch.equal(tables[0], tables[1])
        if isinstance(made(name, dataset), Rowless):
            pytest.skip(f"{name} is counted or solved from the pairs, and draws nothing.")
        assert not torch.equal(tables[0], tables[2])

    @pytest.mark.parametrize("propagation", ["auto", "stepwise"])
    def test_trains_with_users_and_items_without_pairs(self, name: str, propagation: str, dataset: Dataset) -> None:
        trained = train(
            dataset, configured(name, epochs=2, batch_size=128, propagation=propagation), TrainingOptions(quiet=True)
        )
        assert np.isfinite(trained.ranking.users).all()
        assert np.isfinite(trained.ranking.items).all()
        assert all(np.isfinite(line["loss"]) for line in trained.curve if line["loss"] is not None)

    def test_both_ways_to_the_vectors_agree(self, name: str, dataset: Dataset) -> None:
        models = []
        for propagation in ("auto", "stepwise"):
            config = configured(name, propagation=propagation)
            models.append(build_model(config, dataset, np.random.default_rng(0), None))
        ids = torch.tensor([0, 51, 99, 52])
        gradients = []
        for model in models:
            vectors = model.encode(ids)
            vectors.square().sum().backward()
            gradients.append({key: value.grad for key, value in model.named_parameters() if value.grad is not None})
            plain = vectors.detach().numpy()[:, : model.layer.width]  # a bias is one more column
            assert np.allclose(plain, model.entity_vectors()[ids.numpy()], atol=1e-5)
        assert np.allclose(models[0].entity_vectors(), models[1].entity_vectors(), atol=1e-5)
        assert gradients[0].keys() == gradients[1].keys()
        for key, gradient in gradients[0].items():
            assert torch.allclose(gradient, gradients[1][key], atol=1e-4)


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
    config = configured("legcf", memory_cap_mb=1e-3)
    spilled: GraphModel = build_model(config, dataset, np.random.default_rng(0), tmp_path)
    assert list((tmp_path / "checkpoint").glob("basis*.npy"))
    held = build_model(configured("legcf"), dataset, np.random.default_rng(0), None)
    assert np.allclose(spilled.entity_vectors(), held.entity_vectors(), atol=1e-6)


def test_rows_that_are_not_joined_travel_over_the_plain_graph(dataset: Dataset) -> None:
    options = {"c": 10, "dim": 8, "start": "als", "signed": True, "coded": "items", "joined": False, "update": "none"}
    config = resolve("legcf", preset="graph", overrides={"method": options})
    model = build_model(config, dataset, np.random.default_rng(0), None)
    assert model.on_basis
    table = model.layer.table().detach().numpy()
    dense = dense_normalised(dense_bipartite(dataset.train))
    assert np.allclose(model.entity_vectors(), layer_mean(dense, table, 3), atol=1e-5)
    assert model.meta_vectors() is None
    with pytest.raises(UserError, match="joined"):
        resolve("legcf", preset="graph", overrides={"method": {"joined": False}})


def test_a_full_table_can_start_from_a_factorisation(dataset: Dataset) -> None:
    """Scores of the start are those of the factorisation, times the scale, whatever basis both sides share."""
    config = resolve("full", overrides={"method": {"dim": 8, "initial": "als", "score_scale": 10.0}})
    layer = METHODS["full"].layer(config.method, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    users, items = factorise(dataset.train, 8, np.random.default_rng(0), config.method.als)
    table = layer.table().detach().numpy()
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
