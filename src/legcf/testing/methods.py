# SPDX-License-Identifier: Apache-2.0
"""Check what every embedding layer promises (`embeddings/base.py`), from its presets to a run folder."""

from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.embeddings.baselines.rowless import Rowless
from legcf.embeddings.layer import SolvedLayer, bytes_of
from legcf.graph.adjacency import bipartite
from legcf.testing.graphs import planted
from legcf.training import checkpoint
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model, train
from legcf.training.run_folder import load_model
from legcf.training.session import TrainingOptions


def configured(method: str, **training: Any) -> RunConfig:
    """Return its defaults, on rows of 8; a search that would take long ends with what it has."""
    narrow = {"dim": 8} if "dim" in METHODS[method].layer.Config.model_fields else {}
    return resolve(method, overrides={"method": narrow, "training": {"max_minutes": 0.03, **training}})


def made(method: str, dataset: Dataset, seed: int = 0) -> Any:
    """Return its layer with first values."""
    layer = METHODS[method].trained_layer(configured(method).method, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(seed))
    return layer


def learned(method: str, dataset: Dataset) -> Any:
    """Return its layer, if it is one that torch trains."""
    layer = made(method, dataset)
    if isinstance(layer, SolvedLayer):
        pytest.skip(f"{method} is counted or solved, and has no gradients.")
    return layer


def same(one: Any, other: Any) -> bool:
    """Return whether two tables, tensors or arrays, hold the same values."""
    first, second = (table.detach() if isinstance(table, torch.Tensor) else table for table in (one, other))
    return np.array_equal(first, second)


def gradients_of(module: torch.nn.Module, value: torch.Tensor) -> dict[str, torch.Tensor]:
    module.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    return {key: value.grad.clone() for key, value in module.named_parameters() if value.grad is not None}


class MethodContract:
    """Inherit this and set `name` to the method's."""

    name: ClassVar[str]

    @pytest.fixture
    def method(self) -> str:
        return self.name

    @pytest.fixture
    def dataset(self) -> Dataset:
        """Plant communities, with two users and two items that have no pairs."""
        return planted(52, 48, cold=2)

    def test_says_what_it_is(self, method: str) -> None:
        layer = METHODS[method].layer
        assert layer.summary
        assert layer.citation
        assert {"paper", "default"} <= set(layer.presets)

    def test_presets_resolve_completely(self, method: str) -> None:
        for preset in METHODS[method].layer.presets:
            content = resolve(method, preset=preset).to_json()
            assert content["preset"] == preset
            assert set(METHODS[method].layer.Config.model_fields) == set(content["method"])

    def test_rows_are_rows_of_the_table(self, method: str, dataset: Dataset) -> None:
        layer = learned(method, dataset)
        table = layer.table()
        assert table.shape[0] == layer.num_entities == 100
        assert torch.isfinite(table).all()
        ids = torch.tensor([99, 0, 50, 0])
        assert torch.allclose(layer.rows(ids), table[ids], atol=1e-6)
        assert torch.allclose(layer.input_rows()[:100], table)

    def test_rows_and_table_give_the_same_gradient(self, method: str, dataset: Dataset) -> None:
        layer = learned(method, dataset)
        ids = torch.tensor([3, 60, 3])
        pull = torch.randn(3, layer.table().shape[1], generator=torch.Generator().manual_seed(0))
        gradients = [gradients_of(layer, (rows * pull).sum()) for rows in (layer.rows(ids), layer.table()[ids])]
        assert gradients[0].keys() == gradients[1].keys() != set()
        for key, gradient in gradients[0].items():
            assert torch.allclose(gradient, gradients[1][key], atol=1e-5)

    def test_its_linear_form_is_its_input(self, method: str, dataset: Dataset) -> None:
        layer = learned(method, dataset)
        linear = layer.linear_basis()
        if linear is None:
            pytest.skip(f"{method} is not linear, or not before it is trained.")
        selection, theta = linear
        rows = selection @ theta.detach().numpy()
        assert np.allclose(rows, layer.input_rows().detach().numpy(), atol=1e-5)

    def test_graph_keeps_entities_first(self, method: str, dataset: Dataset) -> None:
        layer = made(method, dataset)
        adjacency = bipartite(dataset.train)
        graph = layer.graph(adjacency)
        assert graph.shape[0] == graph.shape[1] == layer.input_rows().shape[0]
        assert ((graph[:100, :100] != 0) != (adjacency != 0)).nnz == 0

    def test_bytes_are_those_of_its_file(self, method: str, dataset: Dataset, tmp_path: Path) -> None:
        """Count all that the file holds, and nothing else."""
        trained = train(dataset, configured(method, epochs=1, batch_size=128), TrainingOptions(tmp_path, quiet=True))
        layer = trained.model.layer
        groups, _ = checkpoint.load(tmp_path / "model.safetensors")
        stored = {key: value for key, value in groups["model"].items() if key.startswith("layer.")}
        assert layer.storage_bytes() == bytes_of(stored.values())
        others = bytes_of(groups["model"].values()) - layer.storage_bytes()
        rows, lists = trained.ranking.rows, trained.ranking.lists
        own = layer.storage_bytes() if rows is None else rows.packed_bytes  # as the model file holds them
        assert trained.metrics["storage_bytes"] == own + others + (0 if lists is None else lists.storage_bytes())
        assert layer.total_trainable() > 0
        again = load_model(tmp_path).model.layer
        assert same(again.table(), layer.table())
        assert (again.num_params(), again.storage_bytes()) == (layer.num_params(), layer.storage_bytes())

    def test_state_comes_back(self, method: str, dataset: Dataset) -> None:
        layer = made(method, dataset)
        other: Any = METHODS[method].trained_layer(layer.config, dataset.num_users, dataset.num_items)
        other.load_state_dict(deepcopy(layer.state_dict()))
        assert same(other.table(), layer.table())
        assert (other.graph(bipartite(dataset.train)) != layer.graph(bipartite(dataset.train))).nnz == 0

    def test_the_seed_decides(self, method: str, dataset: Dataset) -> None:
        tables = [made(method, dataset, seed).table() for seed in (1, 1, 2)]
        assert same(tables[0], tables[1])
        if isinstance(made(method, dataset), Rowless):
            pytest.skip(f"{method} is counted or solved from the pairs, and draws nothing.")
        assert not same(tables[0], tables[2])

    @pytest.mark.parametrize("propagation", ["auto", "stepwise"])
    def test_trains_with_users_and_items_without_pairs(self, method: str, propagation: str, dataset: Dataset) -> None:
        config = configured(method, epochs=2, batch_size=128, propagation=propagation)
        trained = train(dataset, config, TrainingOptions(quiet=True))
        assert np.isfinite(trained.ranking.users).all()
        assert np.isfinite(trained.ranking.items).all()
        assert all(np.isfinite(line["loss"]) for line in trained.curve if line["loss"] is not None)

    def test_both_ways_to_the_vectors_agree(self, method: str, dataset: Dataset) -> None:
        learned(method, dataset)
        # A penalty, so that torch trains what a formula could.
        configs = [configured(method, propagation=propagation, l2=0.1) for propagation in ("auto", "stepwise")]
        models = [build_model(config, dataset, np.random.default_rng(0), None) for config in configs]
        ids = torch.tensor([0, 51, 99, 52])
        gradients = []
        for model in models:
            vectors = model.encode(ids)
            gradients.append(gradients_of(model, vectors.square().sum()))
            plain = vectors.detach().numpy()[:, : model.layer.width]  # a bias is one more column
            assert np.allclose(plain, model.entity_vectors()[ids.numpy()], atol=1e-5)
        assert np.allclose(models[0].entity_vectors(), models[1].entity_vectors(), atol=1e-5)
        assert gradients[0].keys() == gradients[1].keys()
        for key, gradient in gradients[0].items():
            assert torch.allclose(gradient, gradients[1][key], atol=1e-4)
