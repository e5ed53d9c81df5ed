"""What a Python user imports: fit, evaluate, recommend, similar items, save, load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf import runs
from legcf.assignment.assignment import Assignment
from legcf.configuration import RunConfig, validated
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.source import DataOptions, load, training_data
from legcf.embeddings.legcf import Legcf
from legcf.errors import UserError
from legcf.evaluation import evaluate
from legcf.evaluation.evaluate import DEFAULT_KS
from legcf.evaluation.ranking import FloatArray, rank
from legcf.graph.neighbours import Neighbours
from legcf.model import GraphModel
from legcf.model_file import TrainedModel, load_model, save_model
from legcf.registry import resolve


class Recommender:
    """Train on interactions, then ask for recommendations with the ids that went in.

    >>> model = Recommender(seed=1).fit("interactions.csv")
    >>> model.recommend(["alice", "bob"], k=10)

    Options beyond the preset are given by section: `Recommender(method_options={"c": 200}, training={"epochs": 5})`.
    """

    users: IdMap
    items: IdMap
    titles: list[str] | None
    train: Interactions
    user_vectors: FloatArray
    """U × d, propagated; the score of a pair is the inner product of its vectors, and what neighbours add to it."""
    item_vectors: FloatArray
    neighbours: Neighbours | None
    """What a user's neighbours took adds to its scores, for models whose ranking uses it."""
    meta_vectors: FloatArray | None
    """H_meta, c × d, for methods with a codebook."""
    metrics: dict[str, Any]
    curve: list[dict[str, Any]]

    def __init__(
        self,
        method: str = "legcf",
        backbone: str | None = None,
        preset: str = "default",
        seed: int = 0,
        *,
        method_options: Mapping[str, Any] | None = None,
        backbone_options: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        quiet: bool = True,
    ) -> None:
        overrides = {"method": method_options or {}, "backbone": backbone_options or {}, "training": training or {}}
        self.config: RunConfig = resolve(method, backbone, preset, seed, overrides)
        self._quiet = quiet
        self._trained: TrainedModel | None = None
        self._dataset: Dataset | None = None

    def fit(
        self, data: Dataset | str | Path | pl.DataFrame | Any, options: DataOptions | None = None, **data_options: Any
    ) -> Recommender:
        """`data` is a Dataset, a source that `legcf train` takes, or a frame with a row for each interaction.

        Options of reading and splitting may be given by name: `fit("log.csv", user_col="uid", protocol="ratio")`.
        """
        chosen = options or validated(DataOptions, data_options, "data")
        dataset = training_data(data, chosen)
        self._adopt(runs.train(dataset, self.config, quiet=self._quiet))
        self._dataset = dataset
        return self

    @classmethod
    def load(cls, folder: str | Path) -> Recommender:
        """A model saved by `save` or by `legcf train`; the training data need not be there any more."""
        return cls.of(load_model(Path(folder)))

    @classmethod
    def of(cls, trained: TrainedModel) -> Recommender:
        """Around a model that is already trained."""
        self = cls.__new__(cls)
        self.config, self._quiet, self._dataset = trained.config, True, None
        self._adopt(trained)
        return self

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors and model.json."""
        save_model(Path(folder), self._fitted())

    def evaluate(self, part: str = "test", ks: Sequence[int] = DEFAULT_KS) -> dict[str, float]:
        """Metrics on the dataset's `test` or `validation` part."""
        self._fitted()
        if not ks or min(ks) < 1:
            raise UserError("List lengths to evaluate at start at 1; give at least one.")
        dataset = self.dataset()
        parts = {"test": dataset.test, "validation": dataset.validation}
        if part not in parts:
            raise UserError(f"There is no part `{part}` to evaluate: choose test or validation.")
        return evaluate(
            self.user_vectors, self.item_vectors, parts[part], dataset.train, ks, neighbours=self.neighbours
        )

    def recommend(
        self, users: ExternalId | Iterable[ExternalId] | None = None, k: int = 20, exclude_seen: bool = True
    ) -> pl.DataFrame:
        """The k best items of some users (all by default): columns user, rank, item, score, and title if known."""
        self._fitted()
        if k < 1:
            raise UserError(f"k = {k} recommendations cannot be given; ask for at least 1.")
        if users is None:
            positions: NDArray[np.integer] = np.arange(len(self.users))
        else:
            positions = self.users.positions([users] if isinstance(users, int | str) else users)
        seen = self.train if exclude_seen else None
        ranked, scores = rank(self.user_vectors, self.item_vectors, k, positions, seen, self.neighbours)
        return self._frame("user", self.users.external(positions), ranked, scores)

    def similar_items(self, items: ExternalId | Iterable[ExternalId], k: int = 10) -> pl.DataFrame:
        """The k items whose vectors point most nearly the same way (cosine)."""
        self._fitted()
        if k < 1:
            raise UserError(f"k = {k} similar items cannot be given; ask for at least 1.")
        positions = self.items.positions([items] if isinstance(items, int | str) else items)
        unit = self.item_vectors / np.maximum(np.linalg.norm(self.item_vectors, axis=1, keepdims=True), 1e-12)
        own = Interactions.from_pairs(np.arange(len(positions)), positions, len(positions), len(self.items))
        ranked, scores = rank(unit[positions], unit, k, seen=own)
        return self._frame("to", self.items.external(positions), ranked, scores)

    @property
    def model(self) -> GraphModel:
        return self._fitted().model

    @property
    def item_bias(self) -> FloatArray | None:
        bias = self._fitted().model.layer.item_bias
        return None if bias is None else bias.detach().numpy()

    @property
    def item_codes(self) -> tuple[FloatArray, Assignment] | None:
        """Codebook and assignment whose product *is* the item vectors, for models that need no graph to make them."""
        layer = self._fitted().model.layer
        if not isinstance(layer, Legcf) or layer.item_bias is not None:
            return None
        codebook, everyone = layer.codebook.detach().numpy(), layer.assignment
        items = Assignment(
            everyone.indices[layer.num_users :], everyone.weights[layer.num_users :], everyone.num_buckets
        )
        rows = items.compose(codebook)
        exact = rows.shape == self.item_vectors.shape and np.allclose(rows, self.item_vectors, rtol=1e-3, atol=1e-5)
        return (codebook, items) if exact else None

    @property
    def card(self) -> dict[str, Any]:
        """What there is to know about the model: how it was made, its size and its accuracy."""
        keys = ("dataset", "method", "backbone", "preset", "protocol", "seed", "num_params", "storage_bytes")
        return {
            "name": self.metrics.get("dataset"),
            **{key: self.metrics.get(key) for key in keys},
            "metrics": self.metrics,
            "curve": self.curve,
            "config": self.config.to_json(),
        }

    def dataset(self) -> Dataset:
        """The data it was trained on, opened again from its source if need be."""
        if self._dataset is None:
            data = self.config.data
            if not data.get("source"):
                raise UserError("This model does not say where its data came from; give the data to evaluate on.")
            dataset = load(data["source"], DataOptions(**data.get("options", {})))
            if dataset.content_hash != self.metrics.get("content_hash"):
                raise UserError(f"{data['source']} has changed since the model was trained on it; train again.")
            self._dataset = dataset
        return self._dataset

    def _adopt(self, trained: TrainedModel) -> None:
        self._trained = trained
        self.users, self.items, self.titles, self.train = trained.users, trained.items, trained.titles, trained.train
        self.metrics, self.curve = trained.metrics, trained.curve
        self.user_vectors, self.item_vectors = trained.model.vectors()
        self.neighbours = trained.model.neighbours(self.user_vectors, self.item_vectors)
        self.meta_vectors = trained.model.meta_vectors()

    def _fitted(self) -> TrainedModel:
        if self._trained is None:
            raise UserError("This recommender has not been fitted yet: call fit(data) or Recommender.load(folder).")
        return self._trained

    def _frame(
        self, key: str, asked: Sequence[ExternalId], ranked: NDArray[np.int32], scores: FloatArray
    ) -> pl.DataFrame:
        real = ranked >= 0
        chosen = ranked[real]
        counts = real.sum(axis=1)
        columns: dict[str, Any] = {
            key: np.repeat(np.asarray(asked, dtype=object), counts).tolist(),
            "rank": (np.cumsum(real, axis=1)[real]).astype(np.int32),
            "item": self.items.external(chosen),
            "score": scores[real],
        }
        if self.titles is not None:
            columns["title"] = [self.titles[position] for position in chosen.tolist()]
        return pl.DataFrame(columns)
