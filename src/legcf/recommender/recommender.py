# SPDX-License-Identifier: Apache-2.0
"""Offer what a Python user imports: fit, evaluate, recommend, find similar ones, update, save, load and export."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from legcf.core import notebook_repr
from legcf.core.arguments import as_count, as_list
from legcf.core.config import RunConfig, validated
from legcf.core.errors import UserError, python_arguments
from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import DataOptions
from legcf.data.source import is_source, load_data, load_training_data
from legcf.data.summary import what_was_kept
from legcf.evaluation.evaluate import DEFAULT_KS, accuracy, new_pairs
from legcf.export.export import ExportReport, export_model
from legcf.export.options import ExportOptions
from legcf.recommender.answering import Answering
from legcf.recommender.outcome import epoch_lines, print_outcome
from legcf.recommender.parameters import Parameters, overrides_of, parameters_of
from legcf.training import run
from legcf.training.registry import resolve
from legcf.training.run_folder import TrainedModel, load_model, save_model
from legcf.training.session import TrainingOptions
from legcf.updating.apply import apply, with_item_features, with_user_features
from legcf.updating.merge import grown_dataset
from legcf.updating.vectors import RESOLVE_SHARE

_PARTS = ("test", "validation")


class Recommender(Answering, Parameters, notebook_repr.Shown):
    """Train on interactions, then ask for recommendations with the ids that went in.

    Options beyond the preset go by section, under the names that they have in a configuration file.

    Args:
        method: What makes the embeddings; `legcf methods` lists all.
        backbone: What propagates them; the preset names one by default.
        preset: Named settings of the method.
        seed: Seed of every draw in the run.
        method_options: Keys of the section `method`, such as `{"c": 200}`.
        backbone_options: Keys of the section `backbone`.
        training: Keys of the section `training`, such as `{"epochs": 5}`.
        ranking: Keys of the section `ranking`, such as `{"bytes": "1MB"}`.
        quiet: Whether to show no progress, and not to say at the end how it went.
        seconds: Have `fit` done in this time, with the best model that these cores make in it, at least that of the
            preset `fast`. A clock is not repeatable: `metrics["within"]` says what was kept, and a recommender with the
            settings of `config` makes it again.

    Example:
        ```python
        model = Recommender(seed=1).fit("interactions.csv")
        model.recommend(["alice", "bob"], k=10)
        ```
    """

    _first: Dataset | None = None
    _dataset: Dataset | None = None

    @python_arguments
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
        seconds: float | None = None,
    ) -> None:
        self._configure({name: value for name, value in locals().items() if name != "self"})
        self._keep(None)

    def _configure(self, parameters: dict[str, Any]) -> None:
        named = {name: parameters[name] for name in ("method", "backbone", "preset", "seed")}
        self._options: RunConfig = resolve(**named, overrides=overrides_of(parameters))
        self._quiet, self._parameters = parameters["quiet"], parameters

    @python_arguments
    def fit(
        self,
        data: Dataset | str | Path | pl.DataFrame | Any,
        options: DataOptions | None = None,
        *,
        final: bool = False,
        item_features: str | Path | pl.DataFrame | Any = None,
        user_features: str | Path | pl.DataFrame | Any = None,
        **data_options: Any,
    ) -> Recommender:
        """Read data, train on it, and test on what was held out.

        Args:
            data: A Dataset, a source that `legcf train` takes (a path, several, a known name), a frame of polars,
                pandas or Arrow with a row for each interaction, or a scipy sparse matrix of users × items.
            options: How to read and split it, as one record.
            final: Choose and test as usual, and then train once more on every pair: the model to use.
            item_features: A table with a row per item (a file or a frame), so that items without users can be
                recommended.
            user_features: A table with a row per user, so that people without items can be recommended something by
                what is known of them. `metrics["user_features"]` says whether that is better than what is popular.
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
        started = time.perf_counter()
        reading = options or validated(DataOptions, data_options, "data")
        dataset = load_training_data(data, reading)
        if not self._quiet:
            print(what_was_kept(dataset), file=sys.stderr)
        config = self._options
        if isinstance(data, str | Path | list | tuple):
            config = config.model_copy(update={"data": reading.reference(data)})
        elif not isinstance(data, Dataset):
            changed = reading.model_dump(mode="json", exclude_defaults=True)
            config = config.model_copy(update={"data": {"options": changed} if changed else {}})
        listener = None if self._quiet else epoch_lines(partial(print, file=sys.stderr))
        trained = run.train(dataset, config, TrainingOptions(None, False, self._quiet, listener, final, started))
        if item_features is not None:
            trained = with_item_features(trained, dataset, item_features, reading.item_col)
        if user_features is not None:
            trained = with_user_features(trained, user_features, reading.user_col)
        if not self._quiet:
            print_outcome(trained, dataset, config.method.name)
        self._keep(trained, dataset)
        return self

    @python_arguments
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
        """Take in new pairs, of known and of new users and items, without training. This changes the recommender.

        Tables are read as that of the training was, unless there are other options. Every pair counts, whatever part
        it would be split into. To keep the model as it was, `save` it first.

        Args:
            data: New interactions, as `fit` takes them.
            options: How to read them.
            threshold: The share of what an item is learnt from that must be new for it to be solved again.
            item_features: A table with a row per item, for items that nobody or hardly anybody has yet.
            events: The folder of a server's event log; what the model does not know yet is taken in, once.
            evaluate: Whether to measure the updated model on what was held out, and where much is new to weigh its
                lists by it.
            **data_options: The same as `options`, by name.

        Returns:
            The recommender itself. `metrics["updated"]` says what was done and whether retraining is due.
        """
        reading = options or validated(DataOptions, data_options, "data")
        open_data = self._first_dataset if evaluate else None
        trained = apply(self.trained, data, item_features, events, reading, threshold, open_data)
        self._keep(trained, self._first)
        return self

    @classmethod
    @python_arguments
    def load(cls, folder: str | Path) -> Recommender:
        """Open the folder that `save` or `legcf train` wrote; the training data need not be there any more."""
        return cls.of(load_model(Path(folder)))

    @classmethod
    def of(cls, trained: TrainedModel) -> Recommender:
        """Put a recommender around a trained model, as `training.run_folder.load_model` or `trained` gives it."""
        self = cls.__new__(cls)
        self._options, self._quiet, self._parameters = trained.config, True, parameters_of(trained.config)
        self._keep(trained)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: model.safetensors and model.json, without pickle."""
        save_model(Path(folder), self.trained)

    @python_arguments
    def export(self, path: str | Path, options: ExportOptions | None = None, **export_options: Any) -> ExportReport:
        """Write one small file that `Scorer.load` and `legcf serve` read, without the graph.

        Args:
            path: The file, such as `model.legcf`.
            options: What to write, as one record.
            **export_options: The same by name: `export("model.legcf", users="history", items="items.csv")`. The table
                of `describe_items` is stored unless there are other `items`.

        Returns:
            Size and parts of the file, and its accuracy before and after where held-out pairs are at hand.

        Example:
            ```python
            model.export("model.legcf").bytes
            ```
        """
        described = {} if "items" in export_options else self._described
        contents = options or ExportOptions(**{"quiet": self._quiet, **described, **export_options})
        return export_model(self.trained, Path(path), contents, self.dataset)

    @python_arguments
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
                are left out, and their numbers are reported.
            ks: Lengths of lists to measure at.
            options: How to read data of your own.
            **data_options: The same by name.

        Returns:
            Metrics by name, such as `recall@20` and `ndcg@20`.
        """
        trained = self.trained
        lengths = [as_count(k, "List lengths to evaluate at") for k in as_list(ks, "List lengths to evaluate at")]
        if not lengths:
            raise UserError("List lengths to evaluate at start at 1; give at least one.")
        if not isinstance(data, str) or data not in _PARTS:
            if isinstance(data, str) and not is_source(data):
                raise UserError(f"There is no part or file `{data}`: choose test or validation, or give data.")
            dataset = load_data(data, options or validated(DataOptions, data_options, "data"))
            if not isinstance(data, Dataset):
                dataset = dataset.whole()
            truth, counts = new_pairs(dataset, self.users, self.items, trained.ranking.hidden)
            return {**accuracy(trained.ranking, truth, lengths), **counts}
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

    def score(self, data: Dataset | str | Path | pl.DataFrame | Any = "test") -> float:
        """Return NDCG@20 of `evaluate(data)`, as scikit-learn's searches ask for it."""
        return self.evaluate(data, ks=(20,))["ndcg@20"]

    @property
    def config(self) -> RunConfig:
        """Return the settings: those of the trained model, with what was chosen, once there is one."""
        return self._options if self._trained is None else self._trained.config

    def dataset(self) -> Dataset:
        """Return the data that it was trained on, opened again from its source if need be, and updated with since."""
        if self._dataset is None:
            first = self._first_dataset()
            self._dataset = grown_dataset(first, self.trained) if "updated" in self.metrics else first
        return self._dataset

    def _first_dataset(self) -> Dataset:
        """Return the data it was first trained on."""
        if self._first is None:
            data = self.config.data
            if not data.get("source"):
                raise UserError("This model does not say where its data came from; give the data to evaluate on.")
            dataset = load_data(data["source"], DataOptions(**data.get("options", {})))
            if dataset.content_hash != self.metrics.get("content_hash"):
                raise UserError(f"{data['source']} has changed since the model was trained on it; train again.")
            self._first = dataset
        return self._first

    def _validation(self) -> Interactions | None:
        with suppress(UserError):
            return None if "final" in self.metrics else self.dataset().validation
        return None

    def _facts(self) -> notebook_repr.Facts:
        method = f"{self.config.method.name}, preset {self.config.preset}"
        if self._trained is None:
            return notebook_repr.Facts("Recommender", {"method": method, "state": "not fitted yet"}, "model.fit(data)")
        metrics = self.metrics
        test = metrics["test"]
        accuracy = (f"{name} {test[name]:.4f}" for name in ("recall@20", "ndcg@20") if name in test)
        once_more = " (then trained on every pair)" if "final" in metrics else ""
        rows = {
            "method": method,
            "data": f"{metrics['dataset']}: {len(self.users):,} users, {len(self.items):,} items",
            "accuracy": (", ".join(accuracy) + once_more) or "not measured",
            "size": notebook_repr.size(metrics["storage_bytes"]),
        }
        return notebook_repr.Facts("Recommender", rows, 'model.export("model.legcf")')

    def _keep(self, trained: TrainedModel | None, first: Dataset | None = None) -> None:
        """Answer from this model, and keep the data that it was first trained on, if that is at hand."""
        self._hold(trained)
        self._first, self._dataset = first, None
