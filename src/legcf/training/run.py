# SPDX-License-Identifier: Apache-2.0
"""Run a training from dataset to files.

They are config.json, metrics.jsonl, checkpoint/, model.safetensors, model.json and metrics.json. Read it from top to
bottom: `train` decides which pairs settings are selected on, `_train_once` is one training with its selection, test and
files, and what follows are its steps.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed, threads
from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.core.files import folder_held, write_json
from legcf.core.random_streams import Stream
from legcf.data.interactions import MANY_PAIRS, SAMPLE_ITEMS, Dataset, Interactions
from legcf.evaluation.metrics import parse_metric
from legcf.ranking.item_lists.recipe import ListFitter, candidate_count
from legcf.scoring.run_files import read_description
from legcf.training.assess import ByteBudget, assess, peak_memory_mb
from legcf.training.build import TrainingGraph, is_solved, learns_codebook, make_model, require_packages
from legcf.training.registry import BACKBONES, METHODS, config_from_json
from legcf.training.run_folder import TrainedModel, prepare_folder, read_vectors, save_model
from legcf.training.sampler import edge_folds
from legcf.training.selection.in_time import best_in_time, rehearsal_share, with_deadline
from legcf.training.selection.select import select_untrained, train_or_keep, tries_tables_alone, with_factorisation
from legcf.training.selection.weigh import refuse_unordered, with_popularity, with_recency, with_repeats
from legcf.training.session import CODED, DEFAULT_OPTIONS, WHOLE_TO_SET_UP, Deadline, RunSession, TrainingOptions
from legcf.training.shared_work import Work

_HELD_OUT = 1 / 3
"""The share of everyone's training pairs to select by where a protocol has no validation. By a tenth, lists are
selected that reproduce the other nine, which test pairs do not reward; a fifth lies between (docs/study.md, 12)."""
_MANY_PAIRS_A_USER = 10  # from which on popularity is not weighed without validation pairs; 22 on LastFM; not measured
_NO_PATIENCE = 10**6  # evaluations: more than any run has


def train(dataset: Dataset, config: RunConfig, options: TrainingOptions = DEFAULT_OPTIONS) -> TrainedModel:
    """Train, keep the best weights, test once, and write the run's files.

    Where settings are to be selected and there are no validation pairs to select by, a third of everyone's training
    pairs is held out first; the selected settings are then trained on all of them. Of very many pairs, those of some
    users with popular items are enough to select by (`MANY_PAIRS`, `SAMPLE_ITEMS`). A `final` model is selected and
    tested as usual, in the folder `chosen` of the run, and then trained once more on every pair there is.
    """
    require_packages(config)
    options = with_deadline(config, options)
    with ExitStack() as stack:
        stack.enter_context(threads.collecting_what_is_new())
        folder = options.folder
        distributed.run_on_first_and_broadcast(
            lambda: None if folder is None else stack.enter_context(folder_held(folder))
        )
        return _train(dataset, config, options)


def _train(dataset: Dataset, config: RunConfig, options: TrainingOptions) -> TrainedModel:
    rehearsal_data = _rehearsal_data(dataset, config, options.final)
    if rehearsal_data is None:
        return _train_once(dataset, config, options)
    parts = (dataset.train, dataset.validation, dataset.test) if options.final else (dataset.train,)
    pairs = sum(part.num_pairs for part in parts)
    rehearsal = _rehearse(rehearsal_data, config, rehearsal_share(options, rehearsal_data.train.num_pairs, pairs))
    data = dataset.whole() if options.final else dataset
    options = replace(options, work=Work(), deadline=Deadline())  # what was kept is made again, however long it takes
    return _train_once(data, rehearsal.frozen_config, options, rehearsal)


@dataclass(frozen=True)
class Rehearsal:
    """Hold the outcome of a training on some pairs, which a training on more pairs repeats."""

    config: RunConfig
    metrics: dict[str, Any]

    @property
    def seconds(self) -> float:
        """Return what it took, a rehearsal of its own included."""
        seconds: dict[str, float] = self.metrics["seconds"]
        return seconds.get("whole", seconds["this_session"])

    @property
    def frozen_config(self) -> RunConfig:
        """Return the settings that give the model again from other pairs, with nothing left to select."""
        update = {"keep": "last", "continue_from": "last", "patience": _NO_PATIENCE}
        if (self.metrics.get("best_epoch") or {}).get("epoch") == 0:
            update["epochs"] = 0
        training = self.config.training.model_copy(update=update)
        return self.config.model_copy(update={"training": training})


def _rehearsal_data(dataset: Dataset, config: RunConfig, final: bool) -> Dataset | None:
    """Return the pairs to select settings by; None where the dataset itself will do, or has too few pairs."""
    if final:
        return dataset
    are_few = dataset.train.num_pairs < _MANY_PAIRS_A_USER * dataset.num_users  # else vectors know better
    weighs_popularity = config.ranking.popularity_weight is None and are_few
    if config.ranking.search_representation and dataset.train.num_pairs > MANY_PAIRS:
        part = dataset.sample(MANY_PAIRS, SAMPLE_ITEMS, Stream.SELECTION_SAMPLE.generator(config.seed))
    elif not dataset.validation.num_pairs and (config.ranking.chooses or weighs_popularity):
        part = dataset.holding_out(_HELD_OUT, Stream.SELECTION_PAIRS.generator(config.seed))
    else:
        return None
    return part if part.train.num_pairs and part.validation.num_pairs else None


def _rehearse(dataset: Dataset, config: RunConfig, options: TrainingOptions) -> Rehearsal:
    """Train in the folder `chosen` of the run, or read what was trained there before a stop."""
    folder = None if options.folder is None else options.folder / "chosen"

    def has(name: str) -> bool:
        """Ask the first process, which has the folder; `resume` is the same in all, so all reach the broadcast."""
        return options.resume and bool(
            distributed.run_on_first_and_broadcast(lambda: folder is not None and (folder / name).exists())
        )

    if has("model.json"):
        described = distributed.run_on_first_and_broadcast(
            lambda: read_description(folder) if folder is not None else None
        )
        return Rehearsal(config_from_json(described["config"]), described["metrics"])
    resume = has("config.json")
    options = TrainingOptions(folder, resume, options.quiet, options.on_epoch, deadline=options.deadline)
    trained = train(dataset, config, options)
    return Rehearsal(trained.config, trained.metrics)


def _train_once(
    dataset: Dataset, config: RunConfig, options: TrainingOptions, rehearsal: Rehearsal | None = None
) -> TrainedModel:
    """Train on this dataset; `rehearsal` is what the training repeats, if anything."""
    started = time.perf_counter()
    if dataset.train.num_pairs == 0:
        raise UserError(f"{dataset.name} has no training pairs.")
    parse_metric(config.training.monitor)
    refuse_unordered(config, dataset)
    sized, byte_budget = _with_sizes(config, dataset)
    folder = options.folder
    distributed.run_on_first_and_broadcast(
        lambda: folder is not None and prepare_folder(folder, sized, dataset, options.resume)
    )
    if distributed.world_size() > 1:
        _refuse_what_ranks_cannot_share(sized, dataset.train)
    threads.use(sized.training.threads)
    threads.return_freed_memory()

    def make(one: RunConfig, options: TrainingOptions) -> TrainedModel:
        return _make(dataset, *_with_sizes(one, dataset), options)

    if sized.training.seconds is None:
        trained = _make(dataset, sized, byte_budget, options)
    else:
        trained = best_in_time(sized, options, make)
    trained.metrics["peak_rss_mb"] = peak_memory_mb()
    trained.metrics["seconds"]["this_session"] = took = time.perf_counter() - started
    trained.metrics["seconds"]["whole"] = took + (0.0 if rehearsal is None else rehearsal.seconds)
    if rehearsal is not None:
        trained.metrics.update(_rehearsal_metrics(rehearsal, dataset, options.final))
    if folder is not None:
        save_model(folder, trained)
        write_json(folder / "metrics.json", trained.metrics)
        for spilled in (folder / "checkpoint").glob("basis*.npy"):
            spilled.unlink()
    return trained


def _make(dataset: Dataset, sized: RunConfig, byte_budget: int | None, options: TrainingOptions) -> TrainedModel:
    """Select, train and test a model; `byte_budget` is what its vectors and lists may take."""
    started, rng = time.perf_counter(), Stream.RUN.generator(sized.seed)
    sized = with_factorisation(sized, dataset, options.work, options.deadline)
    folds = edge_folds(dataset.train, sized.training.edge_folds, rng) if sized.training.edge_folds else None
    if tries_tables_alone(sized, dataset, byte_budget):
        session_type, model = RunSession, None  # it is made when a table has been selected
    else:
        session_type = _session_type(sized)
        model = build_model(sized, dataset, rng, options.folder, folds, options.work)
    options.deadline.require(CODED)
    stages = METHODS[sized.method.name].recipe(sized.method, sized.training)
    session = session_type(model, dataset, sized, stages, rng, options)
    fitter = None
    if sized.ranking.has_lists:
        key = f"lists {candidate_count(dataset.train, byte_budget)}"
        fitter = options.work.once(dataset.train, key, lambda: ListFitter(dataset.train, byte_budget))
    builder = replace(session.builder, byte_budget=byte_budget, fitter=fitter)
    threads.return_freed_memory()
    set_up = time.perf_counter() - started
    if sized.ranking.search_representation and session.validates:
        session.expected_end = started + WHOLE_TO_SET_UP * set_up

    def untrained_model(table: RunConfig) -> Any:
        return build_model(table, dataset, Stream.RUN.generator(table.seed), work=options.work)

    # Selected before any training, and so the same again when a run is resumed; then nothing is reported twice.
    resumes = options.resume and session.can_resume()
    untrained = select_untrained(session, builder, untrained_model, report=not resumes)
    selected = train_or_keep(session, replace(builder, config=untrained.ranking), untrained_model, untrained, resumes)
    selected = with_popularity(selected, builder, dataset)
    selected, known = with_recency(with_repeats(selected, builder, dataset), dataset)
    selected = replace(selected, ranking=replace(selected.ranking, dislikes=dataset.dislikes))

    evaluation_started = time.perf_counter()
    metrics = assess(selected.model, selected.ranking, dataset, selected.config)
    metrics["seconds"] = {
        "set_up": set_up,
        "train": session.state.seconds,
        "counted": session.state.spent,
        "evaluate": time.perf_counter() - evaluation_started,
    }
    metrics |= _best_epochs(session) | selected.reason
    names = dataset.users, dataset.items, dataset.titles
    return TrainedModel(selected.model, selected.ranking, known, selected.config, *names, metrics, session.lines)


def _with_sizes(config: RunConfig, dataset: Dataset) -> tuple[RunConfig, int | None]:
    """Fill in what the method chooses and every size left to the data; return the bytes for vectors and lists.

    The bytes are None where the file may have any size.
    """
    layer, budget = METHODS[config.method.name].layer, ByteBudget.of(config, dataset)
    method, training = layer.chosen(config.method, dataset), config.training
    if budget is not None:
        usual, method = method, layer.within(method, budget.left(method), dataset.num_items)
        if method != usual and training.epochs_of_large:
            training = training.model_copy(update={"epochs": training.epochs_of_large})
    method = layer(method, dataset.num_users, dataset.num_items).config
    sized = config.model_copy(update={"method": method, "training": training})
    return sized, None if budget is None else budget.left(method)


def _refuse_what_ranks_cannot_share(config: RunConfig, train: Interactions) -> None:
    """Refuse in one sentence, before any work is done, what several workers cannot train."""
    method, training = METHODS[config.method.name], config.training
    stages = [stage for stage in method.recipe(config.method, training) if stage.epochs]
    alone = f"several workers cannot share: train it without --workers (method {config.method.name})."
    if not all(stage.supports_distributed for stage in stages):
        raise UserError(f"A recipe with a search of its own is something that {alone}")
    if not stages or learns_codebook(config):
        return
    from legcf.training.learning.losses import LOSSES  # here: what is solved needs no torch

    if LOSSES[training.loss].negatives == "none":
        raise UserError(f"The loss {training.loss} is of all pairs at once, which {alone}")
    layer: Any = method.trained_layer(config.method, train.num_users, train.num_items)
    coefficients = BACKBONES[config.backbone.name](config.backbone, layer.width).coefficients()
    travels = coefficients is None or coefficients.shape[1] > 1
    on_basis = coefficients is not None and training.propagation != "stepwise" and layer.linear_basis() is not None
    if travels and not on_basis:
        raise UserError(
            f"Backbone {config.backbone.name} propagates this layer over the whole graph at every step, which {alone}"
        )


def build_model(
    config: RunConfig,
    dataset: Dataset,
    rng: np.random.Generator,
    folder: Path | None = None,
    folds: NDArray[np.integer] | None = None,
    work: Work | None = None,
) -> Any:
    """Make a model ready to train, its first values from the data and the generator."""

    def fill(model: Any) -> None:
        layer = model.layer
        if layer.start_table is None:
            (work or Work()).fill(layer, dataset.train, rng)
        else:
            vectors = read_vectors(Path(layer.start_table), (dataset.num_users, dataset.num_items), layer.width)
            layer.initialise_from(*vectors, dataset.train, rng)
        model.backbone.initialise(rng)

    spill_folder = folder / "checkpoint" if folder is not None else None
    return make_model(config, dataset.train, fill, TrainingGraph(spill_folder, folds))


def _session_type(config: RunConfig) -> type[RunSession]:
    if is_solved(config):
        return RunSession
    from legcf.training.loop import Session  # here: what is solved needs no loop

    return Session


def _best_epochs(session: RunSession) -> dict[str, Any]:
    """Return the epoch that the run ends with, and the best epoch of every stage that validation watched."""
    state, score_name = session.state, f"validation {session.config.training.monitor}"
    best = None
    if state.best_at:
        stage, epoch = state.best_at
        best = {"stage": session.stages[stage].name, "epoch": epoch, score_name: state.best}
    each = {name: {"epoch": int(epoch), score_name: score} for name, (epoch, score) in state.best_epochs.items()}
    return {"best_epoch": best, "best_epochs": each}


def _rehearsal_metrics(rehearsal: Rehearsal, dataset: Dataset, final: bool) -> dict[str, Any]:
    """Return what a model that was trained again says of the one it repeats."""
    metrics: dict[str, Any] = {"chosen_on": {"validation": rehearsal.metrics["validation"]}}
    if final:
        metrics = {
            "final": {"pairs": dataset.train.num_pairs, "accuracy_of": "the model it was chosen as"},
            **{key: rehearsal.metrics[key] for key in ("validation", "test", "content_hash")},
        }
    within = {key: rehearsal.metrics[key] for key in ("within",) if key in rehearsal.metrics}
    return {**metrics, **within, "seconds_to_choose": rehearsal.seconds}
