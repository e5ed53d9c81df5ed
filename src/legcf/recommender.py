# SPDX-License-Identifier: Apache-2.0
"""What a Python user imports: fit, evaluate, recommend, similar items, save, load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core import notebook_repr
from legcf.core.arguments import as_count, as_ids, as_list
from legcf.core.arrays import FloatArray
from legcf.core.config import RunConfig, validated
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap, integer_id
from legcf.data.interactions import Dataset
from legcf.data.reading.feature_table import read_items
from legcf.data.source import DataOptions, interactions, is_source, load, training_data
from legcf.evaluation import accuracy
from legcf.evaluation.evaluate import DEFAULT_KS
from legcf.evaluation.new_pairs import new_pairs
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank, similar
from legcf.training import run
from legcf.training.loop import TrainingOptions
from legcf.training.model import GraphModel
from legcf.training.registry import resolve
from legcf.training.run_folder import TrainedModel, load_model, save_model
from legcf.updating.change import RESOLVE_SHARE
from legcf.updating.cold import ItemTable
from legcf.updating.events import new_events, options_of_events
from legcf.updating.merge import grown_dataset
from legcf.updating.update import update

_PARTS = ("test", "validation")
_SAME_IN_UPDATES = {
    "user_col", "item_col", "rating_col", "time_col", "date_format", "header", "delimiter", "min_rating", "weight_col",
    "half_life",
}  # fmt: skip


class Recommender:
    """Train on interactions, then ask for recommendations with the ids that went in.

    Options beyond the preset are given by section, under the names that they have in a configuration file.

    Args:
        method: What makes the embeddings; `legcf methods` lists all.
        backbone: What propagates them; the preset names one by default.
        preset: Named settings of the method.
        seed: Seed of every draw in the run.
        method_options: Keys of the section `method`, such as `{"c": 200}`.
        backbone_options: Keys of the section `backbone`.
        training: Keys of the section `training`, such as `{"epochs": 5}`.
        ranking: Keys of the section `ranking`, such as `{"bytes": "1MB"}`.
        quiet: Whether to show no progress.

    Example:
        ```python
        model = Recommender(seed=1).fit("interactions.csv")
        model.recommend(["alice", "bob"], k=10)
        ```
    """

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
        ranking: Mapping[str, Any] | None = None,
        quiet: bool = True,
    ) -> None:
        overrides = {
            "method": method_options or {},
            "backbone": backbone_options or {},
            "training": training or {},
            "ranking": ranking or {},
        }
        self._wanted: RunConfig = resolve(method, backbone, preset, seed, overrides)
        self._quiet = quiet
        self._trained: TrainedModel | None = None
        self._dataset: Dataset | None = None
        self._first: Dataset | None = None

    def fit(
        self,
        data: Dataset | str | Path | pl.DataFrame | Any,
        options: DataOptions | None = None,
        *,
        final: bool = False,
        **data_options: Any,
    ) -> Recommender:
        """Read data, train on it, and test on what was held out.

        Args:
            data: A Dataset, a source that `legcf train` takes (a path, several, a known name), a frame of polars,
                pandas or Arrow with a row for each interaction, or a scipy sparse matrix of users × items.
            options: How to read and split it, as one record.
            final: Choose and test as usual, and then train once more on every pair: the model to use.
            **data_options: The same as `options` by name: `fit("log.csv", user_col="uid", protocol="ratio")`.

        Returns:
            The recommender itself.

        Raises:
            UserError: The data cannot be read, or nothing can be learned from it; the sentence says what to do.

        Example:
            ```python
            model = Recommender().fit("interactions.csv", final=True)
            ```
        """
        chosen = options or validated(DataOptions, data_options, "data")
        dataset = training_data(data, chosen)
        wanted = self._wanted
        if isinstance(data, str | Path | list | tuple):
            wanted = wanted.model_copy(update={"data": chosen.reference(data)})
        elif not isinstance(data, Dataset):
            told = chosen.model_dump(mode="json", exclude_defaults=True)
            wanted = wanted.model_copy(update={"data": {"options": told} if told else {}})
        self._trained = run.train(dataset, wanted, TrainingOptions(quiet=self._quiet, final=final))
        self._first = self._dataset = dataset
        return self

    def update(
        self,
        data: Dataset | str | Path | pl.DataFrame | Any = None,
        options: DataOptions | None = None,
        *,
        threshold: float = RESOLVE_SHARE,
        item_features: str | Path | pl.DataFrame | Any = None,
        events: str | Path | None = None,
        evaluate: bool = True,
        **data_options: Any,
    ) -> Recommender:
        """Take in new pairs, of known and of new users and items, without training.

        Tables are read as that of the training was, unless other options are given. Every pair counts, whatever part
        it would be split into.

        Args:
            data: New interactions, as `fit` takes them.
            options: How to read them.
            threshold: The share of what an item is learnt from that must be new for it to be solved again.
            item_features: A table with a row per item, for items that nobody or hardly anybody has yet.
            events: The folder of a server's event log; what the model does not know yet is taken in, once.
            evaluate: Whether to measure the updated model on what was held out, and where much is new to weigh its
                lists by it.
            data_options: The same as `options`, by name.

        Returns:
            A recommender that knows them. `metrics["updated"]` says what was done and whether retraining is due.
        """
        trained = self._fitted()
        chosen = options or validated(DataOptions, data_options, "data")
        if not isinstance(data, Dataset):
            as_before = {key: value for key, value in self._read_as().items() if key in _SAME_IN_UPDATES}
            given = chosen.model_dump(include=chosen.model_fields_set)
            chosen = validated(DataOptions, {**as_before, **given}, "data")
        if not 0 <= threshold <= 1:
            raise UserError(f"threshold = {threshold} is not possible: it is a share, from 0 to 1.")
        if data is None and item_features is None and events is None:
            raise UserError("There is nothing to update with: give new interactions, item_features, or events.")
        told = None if events is None else new_events(events, trained)
        if told is not None and data is None and item_features is None and told.is_empty:
            raise UserError(f"{events} holds no event that the model does not know already: there is nothing to do.")
        new = None if data is None else interactions(data, chosen)
        about = None if item_features is None else ItemTable(*read_items(item_features, chosen.item_col))
        first = None
        if evaluate:
            with suppress(UserError):  # its source is gone: nothing to measure by, but nothing that is needed
                first = self._first_dataset()
        if new is not None or about is not None:
            last = told is None or told.is_empty  # what is measured is where all is in
            trained = update(trained, new, first if last else None, threshold, about)
        if told is not None and not told.is_empty:
            reading = options_of_events(chosen.half_life)
            pairs = None if told.pairs.is_empty() else interactions(told.pairs, reading)
            trained = update(trained, pairs, first, threshold, told.about)
            told.mark.to_card(trained.metrics)
        self._trained = trained
        self._dataset = None
        self._first = first or self._first
        return self

    @classmethod
    def load(cls, folder: str | Path) -> Recommender:
        """Open a model that `save` or `legcf train` wrote; the training data need not be there any more.

        Args:
            folder: The run's folder.

        Returns:
            A recommender that is ready to recommend.
        """
        return cls.of(load_model(Path(folder)))

    @classmethod
    def of(cls, trained: TrainedModel) -> Recommender:
        """Put a recommender around a model that is already trained.

        Args:
            trained: What `legcf.training.run_folder.load_model` or the property `trained` gives.

        Returns:
            A recommender that is ready to recommend.
        """
        self = cls.__new__(cls)
        self._wanted, self._quiet, self._trained = trained.config, True, trained
        self._first = self._dataset = None
        return self

    def save(self, folder: str | Path) -> None:
        """Write the model: model.safetensors and model.json, without pickle.

        Args:
            folder: Where to; it is made if need be.
        """
        save_model(Path(folder), self._fitted())

    def evaluate(
        self,
        data: Dataset | str | Path | pl.DataFrame | Any = "test",
        ks: Sequence[int] = DEFAULT_KS,
        options: DataOptions | None = None,
        **data_options: Any,
    ) -> dict[str, float]:
        """Measure the ranking: on the held-out parts of the data it was trained on, or on data of your own.

        Args:
            data: `test` or `validation`, or data of your own as `fit` takes it. Of a Dataset its test part counts,
                otherwise every pair. Pairs that the model was trained on and users and items that it does not know
                are left out, and their numbers are told.
            ks: Lengths of lists to measure at.
            options: How to read data of your own.
            **data_options: The same by name.

        Returns:
            Metrics by name, such as `recall@20` and `ndcg@20`.
        """
        trained = self._fitted()
        lengths = [as_count(k, "List lengths to evaluate at") for k in as_list(ks, "List lengths to evaluate at")]
        if not lengths:
            raise UserError("List lengths to evaluate at start at 1; give at least one.")
        if not isinstance(data, str) or data not in _PARTS:
            if isinstance(data, str) and not is_source(data):
                raise UserError(f"There is no part or file `{data}`: choose test or validation, or give data.")
            chosen = options or validated(DataOptions, data_options, "data")
            dataset = interactions(data, chosen)
            if not isinstance(data, Dataset):
                dataset = dataset.whole()
            truth, told = new_pairs(dataset, self.users, self.items, trained.ranking.histories)
            return {**accuracy(trained.ranking, truth, lengths), **told}
        if "final" in self.metrics:
            raise UserError(
                "This model was trained on every pair, so none is left to measure it by. The accuracy it was chosen by"
                " is in its metrics, and `legcf evaluate RUN/chosen` measures the model before that."
            )
        dataset = self.dataset()
        held_out = dataset.test if data == "test" else dataset.validation
        if not held_out.num_pairs:
            raise UserError(
                f"The data of this model has no {data} pairs (protocol {dataset.protocol}), so there is nothing to"
                " measure it by: train with another protocol, or give data to evaluate on."
            )
        return accuracy(trained.ranking, held_out, lengths)

    def recommend(
        self,
        users: ExternalId | Iterable[ExternalId] | None = None,
        k: int = 20,
        exclude_seen: bool = True,
        unknown: Literal["error", "popular"] = "error",
    ) -> pl.DataFrame:
        """Find the best items of some users, or of all.

        Args:
            users: An id, or several; all users by default.
            k: How many items for each, at most.
            exclude_seen: Whether to leave out what a user is known to have.
            unknown: What to do with ids that the model does not know: an error, or `popular` items.

        Returns:
            A polars frame with the columns user, rank, item, score, title (where titles are known) and fallback, which
            is "popular" for users of whom nothing is known: they are shown what most people have.

        Example:
            ```python
            model.recommend("alice", k=3)["item"].to_list()
            ```
        """
        ranking = self.full_history_ranking
        k = min(as_count(k, "The number of recommendations"), ranking.num_items)
        if unknown not in ("error", "popular"):
            raise UserError(f"unknown = {unknown!r} is not possible: choose error or popular.")
        asked = self.users.external(np.arange(len(self.users))) if users is None else as_ids(users, "user")
        found = [self.users.find(one) for one in asked]
        if unknown == "error":
            self.users.positions(one for one, place in zip(asked, found, strict=True) if place is None)
        known = np.array([place is not None for place in found], dtype=np.bool_)
        positions = np.array([place for place in found if place is not None], dtype=np.int32)
        ranked = np.empty((len(asked), k), dtype=np.int32)
        scores = np.empty((len(asked), k), dtype=np.float32)
        ranked[known], scores[known] = rank(ranking, k, positions, ranking.histories if exclude_seen else None)
        ranked[~known], scores[~known] = ranking.most_popular(k)
        popular = ~known
        popular[known] = ranking.cold_users(positions)
        names = np.empty(len(asked), dtype=object)
        names[:] = asked
        names[known] = self.users.external(positions)  # as in the training data, not as they were typed
        frame = self._frame("user", _of_one_kind(names.tolist(), self.users.is_text), ranked, scores)
        marks = [
            "popular" if alike else None
            for alike, count in zip(popular.tolist(), (ranked >= 0).sum(axis=1).tolist(), strict=True)
            for _ in range(count)
        ]
        return frame.with_columns(pl.Series("fallback", marks, dtype=pl.String))

    def similar_items(self, items: ExternalId | Iterable[ExternalId], k: int = 10) -> pl.DataFrame:
        """Find the items most like some items, by the cosines of their vectors.

        Args:
            items: An id, or several.
            k: How many for each, at most.

        Returns:
            A polars frame with the columns to, rank, item, score, and title where titles are known.
        """
        ranking = self.full_history_ranking
        k = as_count(k, "The number of similar items")
        positions = self.items.positions(as_ids(items, "item"))
        ranked, scores = similar(ranking, positions, k)
        return self._frame("to", self.items.external(positions), ranked, scores)

    @property
    def config(self) -> RunConfig:
        """The settings: those of the trained model, with what was chosen, once there is one."""
        return self._wanted if self._trained is None else self._trained.config

    @property
    def users(self) -> IdMap:
        """The ids of users, in the order of the model's rows."""
        return self._fitted().users

    @property
    def items(self) -> IdMap:
        """The ids of items, in the order of the model's rows."""
        return self._fitted().items

    @property
    def titles(self) -> list[str] | None:
        """Names of items in the same order, if the data had any."""
        return self._fitted().titles

    @property
    def metrics(self) -> dict[str, Any]:
        """What training ended with: accuracy on the held-out parts, size, time and settings."""
        return self._fitted().metrics

    @property
    def curve(self) -> list[dict[str, Any]]:
        """A line per epoch."""
        return self._fitted().curve

    @property
    def ranking(self) -> Ranking:
        """As it was tested: its histories are the training pairs."""
        return self._fitted().ranking

    @property
    def full_history_ranking(self) -> Ranking:
        """What recommends: the same with all that is known of its users."""
        return self._fitted().full_history_ranking

    @property
    def model(self) -> GraphModel:
        """Layer, backbone and graph: what was trained."""
        return self._fitted().model

    @property
    def trained(self) -> TrainedModel:
        """The model with all it needs: what `legcf export` makes a file of."""
        return self._fitted()

    def dataset(self) -> Dataset:
        """Give the data that it was trained on, opened again from its source if need be, and updated with since.

        Returns:
            The dataset with its three parts.
        """
        if self._dataset is None:
            first = self._first_dataset()
            self._dataset = grown_dataset(first, self.trained) if "updated" in self.metrics else first
        return self._dataset

    def _first_dataset(self) -> Dataset:
        """The data it was first trained on."""
        if self._first is None:
            data = self.config.data
            if not data.get("source"):
                raise UserError("This model does not say where its data came from; give the data to evaluate on.")
            dataset = load(data["source"], DataOptions(**data.get("options", {})))
            if dataset.content_hash != self.metrics.get("content_hash"):
                raise UserError(f"{data['source']} has changed since the model was trained on it; train again.")
            self._first = dataset
        return self._first

    def __repr__(self) -> str:
        return notebook_repr.plain(self._facts())

    def _repr_html_(self) -> str:
        return notebook_repr.html(self._facts())

    def _facts(self) -> notebook_repr.Facts:
        wanted = f"{self.config.method.name}, preset {self.config.preset}"
        if self._trained is None:
            return notebook_repr.Facts("Recommender", {"method": wanted, "state": "not fitted yet"}, "model.fit(data)")
        metrics = self.metrics
        accuracy = (
            f"{name} {metrics['test'][name]:.4f}" for name in ("recall@20", "ndcg@20") if name in metrics["test"]
        )
        once_more = " (then trained on every pair)" if "final" in metrics else ""
        rows = {
            "method": wanted,
            "data": f"{metrics['dataset']}: {len(self.users):,} users, {len(self.items):,} items",
            "accuracy": (", ".join(accuracy) + once_more) or "not measured",
            "size": notebook_repr.size(metrics["storage_bytes"]),
        }
        return notebook_repr.Facts("Recommender", rows, 'model.save("RUN"), then legcf export RUN model.legcf')

    def _read_as(self) -> Mapping[str, Any]:
        """The options of the data it was trained on."""
        told: Mapping[str, Any] = self.config.data.get("options", {})
        return told

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
        titles = self.titles
        if titles is not None:
            columns["title"] = [titles[position] for position in chosen.tolist()]
        return pl.DataFrame(columns)


def _of_one_kind(ids: list[ExternalId], text: bool) -> list[ExternalId]:
    """A column holds numbers or text: numbers if those of the model are, and strangers bring nothing else."""
    if not text:
        numbers = [number for one in ids if (number := integer_id(str(one))) is not None]
        if len(numbers) == len(ids):
            return [*numbers]
    return [str(one) for one in ids]
