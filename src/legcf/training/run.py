# SPDX-License-Identifier: Apache-2.0
"""A run from dataset to files: config.json, metrics.jsonl, checkpoint/, model.safetensors, model.json, metrics.json."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed, threads
from legcf.core.arrays import Positions
from legcf.core.config import RunConfig, migrated
from legcf.core.errors import UserError
from legcf.core.files import read_json, write_json
from legcf.data.interactions import MANY_PAIRS, SAMPLE_ITEMS, Dataset
from legcf.embeddings.base import bytes_of
from legcf.embeddings.sized.popularity import sizes_by_popularity
from legcf.evaluation import accuracies
from legcf.modelfile.served_model import fixed_bytes
from legcf.ranking.builder import RankingBuilder, facts
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from legcf.training import shared_work
from legcf.training.loop import Session, check
from legcf.training.losses import LOSSES
from legcf.training.model import GraphModel
from legcf.training.registry import BACKBONES, METHODS, config_from_json
from legcf.training.run_folder import TrainedModel, read_description, save_model
from legcf.training.sampler import edge_folds
from legcf.training.selection import best_without_training, train_or_keep
from legcf.training.shared_work import SharedWork
from legcf.training.warm_start import read_vectors

_AUTO_BYTES, _AUTO_BYTES_PER_ITEM = 1_000_000, 48
_LEAST_BYTES_PER_ITEM = 6  # bytes per item, for a code and an entry
# Of each user's training pairs, to choose by where a protocol has no validation. Of a tenth, lists that know the other
# nine by heart are chosen, which a test part of other habits does not reward (docs/findings.md).
_HELD_OUT = 1 / 3


def prepare_folder(folder: Path, config: RunConfig, dataset: Dataset, resume: bool) -> bool:
    """Make or check the run's folder: a resumed run must have the same configuration and the same data.

    Returns whether there is a run to go on with.
    """
    path = folder / "config.json"
    content = {**config.to_json(), "content_hash": dataset.content_hash}
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose another --out.")
    if not resume:
        if _has_other_files(folder):
            raise UserError(f"{folder} is not empty: add --resume to continue that run, or choose another --out.")
        write_json(path, content)
        return False
    if not path.exists() and not _has_other_files(folder):
        write_json(path, content)  # stopped before anything was written
        return False
    if not path.exists():
        raise UserError(f"{folder} holds no run to resume, but other files: choose another --out.")
    before = read_json(path)
    if not isinstance(before, Mapping):
        raise UserError(f"{path} is not the configuration of a run; choose another --out.")
    if before.get("content_hash") != content["content_hash"]:
        raise UserError(f"{folder} was started on other data (or another split); resume it with the same data.")
    changed = _difference(migrated(before), content)
    if changed:
        raise UserError(
            f"{folder} was started with {changed[0]} = {changed[1]!r}, now it is {changed[2]!r};"
            " resume with the same settings or start a new run."
        )
    return True


def _has_other_files(folder: Path) -> bool:
    """Anything but the rehearsal of the run that is to be written there, and the name of the job that does it."""
    return folder.exists() and any(path.name not in ("chosen", distributed.JOB) for path in folder.iterdir())


def build_model(
    config: RunConfig,
    dataset: Dataset,
    rng: np.random.Generator,
    folder: Path | None,
    folds: NDArray[np.integer] | None = None,
    work: SharedWork | None = None,
) -> GraphModel:
    """A model ready to train: sizes from the configuration, first values from the data and the generator."""
    layer = METHODS[config.method.name].layer(config.method, dataset.num_users, dataset.num_items)
    backbone = BACKBONES[config.backbone.name](config.backbone, layer.width)
    if layer.start_table is None:
        key = config.method.model_dump_json()
        shared_work.first_values(work, layer, dataset.train, rng, key, lambda: layer.initialise(dataset.train, rng))
    else:
        vectors = read_vectors(Path(layer.start_table), (dataset.num_users, dataset.num_items), layer.width)
        layer.initialise_from(*vectors, dataset.train, rng)
    backbone.initialise(rng)
    spill = folder / "checkpoint" if folder is not None else None
    model = GraphModel(layer, backbone, dataset.train, config.training, spill, folds)
    model.rebuild()
    return model


def train(
    dataset: Dataset,
    config: RunConfig,
    folder: Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    final: bool = False,
    work: SharedWork | None = None,
) -> TrainedModel:
    """Train, keep the best weights, test once, and write the run's files.

    Where there is something to choose and no validation pairs to choose by, a third of everyone's training pairs is
    held out first; what is chosen is then trained on all of them. Of very many pairs, those of some users with popular
    items are enough to choose by (`MANY_PAIRS`, `SAMPLE_ITEMS`). A `final` model is chosen and tested as usual (in the
    folder `chosen` of the run) and then trained once more, with what was chosen, on every pair there is. Runs on
    one dataset may share `work`.
    """
    if final:
        rehearsal = dataset
    elif config.ranking.choose and dataset.train.num_pairs > MANY_PAIRS:
        rng = np.random.default_rng([config.seed, 4])
        rehearsal = dataset.sample(MANY_PAIRS, SAMPLE_ITEMS, rng)
    elif config.ranking.chooses and not dataset.validation.num_pairs:
        rehearsal = dataset.holding_out(_HELD_OUT, np.random.default_rng([config.seed, 3]))
    else:
        return _train(dataset, config, folder, resume, quiet, on_epoch, work=work)
    if not (final or (rehearsal.train.num_pairs and rehearsal.validation.num_pairs)):
        return _train(dataset, config, folder, resume, quiet, on_epoch)  # too few pairs to choose anything by
    rehearsed_in = None if folder is None else folder / "chosen"

    def has(name: str) -> bool:
        """The rehearsal, in the folder that the first rank has."""
        return bool(
            resume
            and distributed.run_on_first_and_broadcast(
                lambda: rehearsed_in is not None and (rehearsed_in / name).exists()
            )
        )

    if has("model.json"):
        described = distributed.run_on_first_and_broadcast(
            lambda: read_description(rehearsed_in) if rehearsed_in is not None else None
        )
        chosen = Chosen(config_from_json(described["config"]), described["metrics"])
    else:
        rehearsed = train(rehearsal, config, rehearsed_in, has("config.json"), quiet, on_epoch)
        chosen = Chosen(rehearsed.config, rehearsed.metrics)
    known = dataset.whole() if final else dataset
    return _train(known, settled(chosen), folder, resume, quiet, on_epoch, chosen)


@dataclass(frozen=True)
class Chosen:
    """The model that a run repeats with other pairs."""

    config: RunConfig
    metrics: dict[str, Any]


def settled(chosen: Chosen) -> RunConfig:
    """The settings of a trained model with nothing left to choose: what gives it again, from other pairs."""
    epoch = (chosen.metrics.get("best_epoch") or {}).get("epoch")
    update = {"keep": "last", "continue_from": "last", "patience": 10**6}
    if epoch == 0:
        update["epochs"] = 0
    training = chosen.config.training.model_copy(update=update)
    return chosen.config.model_copy(update={"training": training})


def _train(
    dataset: Dataset,
    config: RunConfig,
    folder: Path | None,
    resume: bool,
    quiet: bool,
    on_epoch: Callable[[dict[str, Any]], None] | None,
    chosen: Chosen | None = None,
    work: SharedWork | None = None,
) -> TrainedModel:
    """One training; `chosen` is the model whose settings it has, if it is a repetition."""
    started = time.perf_counter()
    if dataset.train.num_pairs == 0:
        raise UserError(f"{dataset.name} has no training pairs.")
    method = METHODS[config.method.name]
    check(config.training)
    left = byte_budget(config, dataset)
    wanted = config.method if left is None else method.layer.within(config.method, left, dataset.num_items)
    sized = method.layer(wanted, dataset.num_users, dataset.num_items).config
    config = config.model_copy(update={"method": sized})
    left = byte_budget(config, dataset)  # of the sizes as they are now
    distributed.run_on_first_and_broadcast(
        lambda: folder is not None and prepare_folder(folder, config, dataset, resume)
    )
    if distributed.world_size() > 1:
        _refuse_what_ranks_cannot_share(config, dataset)
    threads.use(config.training.threads)
    rng = np.random.default_rng(config.seed)
    count = config.training.edge_folds
    folds = edge_folds(dataset.train, count, rng) if count else None
    model = build_model(config, dataset, rng, folder, folds, work)
    stages = method.recipe(config.method, config.training)
    fitter = None
    if config.ranking.has_lists:
        fitter = shared_work.once(work, dataset.train, "lists", lambda: ListFitter(dataset.train))
    builder = RankingBuilder(config.ranking, left, fitter, model.layer.item_lists(dataset.train))
    session = Session(model, dataset, config, stages, rng, folder, quiet, folds, on_epoch, builder)
    set_up = time.perf_counter() - started
    going_on = resume and session.can_resume()

    def start(one: RunConfig) -> GraphModel:
        return build_model(one, dataset, np.random.default_rng(one.seed), None, work=work)

    untrained = best_without_training(session, config, left, builder, start, not going_on, work)
    if going_on:
        session.resume()
    model, tuned, config = train_or_keep(session, config, untrained, work)
    ranking = tuned.ranking
    judged = time.perf_counter()
    metrics = assess(model, ranking, dataset, config)
    metrics["seconds"] = {
        "set_up": set_up,
        "train": session.state.seconds,
        "counted": session.state.spent,
        "evaluate": time.perf_counter() - judged,
        "this_session": time.perf_counter() - started,
    }
    metrics["peak_rss_mb"] = peak_memory_mb()
    metrics["best_epoch"] = _best_epoch(session)
    metrics["best_epochs"] = _best_epochs(session)
    if chosen is not None:
        metrics |= _told_of(chosen, dataset)
    trained = TrainedModel(
        model, ranking, dataset.known, config, dataset.users, dataset.items, dataset.titles, metrics, session.lines
    )
    if folder is not None:
        save_model(folder, trained)
        write_json(folder / "metrics.json", metrics)
        for spilled in (folder / "checkpoint").glob("basis*.npy"):
            spilled.unlink()
    return trained


def _refuse_what_ranks_cannot_share(config: RunConfig, dataset: Dataset) -> None:
    """One sentence before any work is done."""
    method, training = METHODS[config.method.name], config.training
    stages = [stage for stage in method.recipe(config.method, training) if stage.epochs]
    alone = f"several workers cannot share: train it without --workers (method {config.method.name})."
    if not all(stage.supports_distributed for stage in stages):
        raise UserError(f"A recipe with a search of its own is something that {alone}")
    if stages and LOSSES[training.loss].negatives == "none":
        raise UserError(f"The loss {training.loss} is of all pairs at once, which {alone}")
    layer = method.layer(config.method, dataset.num_users, dataset.num_items)
    coefficients = BACKBONES[config.backbone.name](config.backbone, layer.width).coefficients()
    travels = coefficients is None or coefficients.shape[1] > 1
    on_basis = coefficients is not None and training.propagation != "stepwise" and layer.linear_basis() is not None
    if stages and travels and not on_basis:
        raise UserError(
            f"Backbone {config.backbone.name} propagates this layer over the whole graph at every step, which {alone}"
        )


def _told_of(chosen: Chosen, dataset: Dataset) -> dict[str, Any]:
    """What a model that was trained again says of the one it repeats."""
    told: dict[str, Any] = {"chosen_on": {"validation": chosen.metrics["validation"]}}
    if not dataset.test.num_pairs:
        told = {
            "final": {"pairs": dataset.train.num_pairs, "accuracy_of": "the model it was chosen as"},
            **{key: chosen.metrics[key] for key in ("validation", "test", "content_hash")},
        }
    return {**told, "seconds_to_choose": chosen.metrics["seconds"]["this_session"]}


def byte_budget(config: RunConfig, dataset: Dataset) -> int | None:
    """What the model file has left for vectors and lists."""
    wanted = config.ranking.bytes
    if wanted is None:
        return None
    if wanted == "auto":
        return max(_AUTO_BYTES, _AUTO_BYTES_PER_ITEM * dataset.num_items)
    size = int(wanted)
    codes = config.method.codebook_size
    fixed = fixed_bytes(dataset.items, dataset.titles, dataset.train.item_degrees, codes)
    if size - fixed < _LEAST_BYTES_PER_ITEM * dataset.num_items:
        least = fixed + _LEAST_BYTES_PER_ITEM * dataset.num_items
        raise UserError(
            f"A model file of {size:,} bytes is too small for {dataset.num_items:,} items:"
            f" names and header take {fixed:,}, and {least:,} are the least for all; raise --bytes."
        )
    return size - fixed


def assess(
    model: GraphModel, ranking: Ranking, dataset: Dataset, config: RunConfig, among: Positions | None = None
) -> dict[str, Any]:
    """Everything a result has to say for itself: accuracy, size both ways, split, protocol, preset and seed.

    Accuracy is a mean over everyone, or over the users `among` them who are named.
    """
    layer, term = model.layer, ranking.term
    sizes = layer.entity_sizes()
    backbone_params = sum(parameter.numel() for parameter in model.backbone.parameters())
    parts = {"test": dataset.test, "validation": dataset.validation}
    measured = accuracies(ranking, {name: part for name, part in parts.items() if part.num_pairs}, among=among)
    return {
        **{name: measured.get(name, {}) for name in parts},
        "num_params": layer.num_params() + (0 if term is None else term.num_params()),
        **({} if sizes is None else {"sizes": sizes_by_popularity(sizes, dataset.train)}),
        "backbone_params": backbone_params,
        "total_trainable": layer.total_trainable() + backbone_params,
        "storage_bytes": (layer.storage_bytes() if ranking.rows is None else ranking.rows.packed_bytes)
        + bytes_of(*model.backbone.parameters())
        + (0 if term is None else term.storage_bytes()),
        **facts(ranking),
        "full_table_bytes": layer.num_entities * layer.width * 4,
        "dataset": dataset.name,
        "protocol": dataset.protocol,
        "content_hash": dataset.content_hash,
        **({} if dataset.weighed_at is None else {"weighed_at": dataset.weighed_at}),
        "method": config.method.name,
        "backbone": config.backbone.name,
        "preset": config.preset,
        "seed": config.seed,
    }


def peak_memory_mb() -> float:
    """The most memory that this process has had."""
    if sys.platform == "win32":
        import psutil

        return float(psutil.Process().memory_info().peak_wset) / 2**20
    import resource  # here: Windows has none

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20


def remove_unfinished(folder: Path) -> None:
    """Take away the folder of a run that failed before there was anything to resume."""
    if folder.is_dir() and not (folder / "checkpoint" / "state.safetensors").exists():
        shutil.rmtree(folder)


def _best_epoch(session: Session) -> dict[str, Any] | None:
    if not session.state.best_at:
        return None
    stage, epoch = session.state.best_at
    monitor = session.config.training.monitor
    return {"stage": session.stages[stage].name, "epoch": epoch, f"validation {monitor}": session.state.best}


def _best_epochs(session: Session) -> dict[str, dict[str, float]]:
    """The best epoch of every stage that validation watched, whichever of them the run ends with."""
    monitor = session.config.training.monitor
    return {
        stage: {"epoch": int(epoch), f"validation {monitor}": score}
        for stage, (epoch, score) in session.state.best_epochs.items()
    }


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> tuple[str, Any, Any] | None:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found = _difference(old, new, f"{prefix}{key}.")
            if found:
                return found
        elif old != new:
            return f"{prefix}{key}", old, new
    return None
