# SPDX-License-Identifier: Apache-2.0
"""Keep runs in folders, and trained models in them.

model.safetensors holds every array, model.json says what they are, answers.legcf is what recommendations are read from.
No pickle.
"""

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from legcf import __version__
from legcf.core import distributed, threads
from legcf.core.arrays import Arrays, FloatArray
from legcf.core.config import RunConfig, migrated
from legcf.core.errors import UserError
from legcf.core.files import folder_held, read_json, write_json
from legcf.data.ids import IdMap, text_from_arrays, text_to_arrays
from legcf.data.interactions import Dataset, Interactions
from legcf.data.reading.vector_table import read_table
from legcf.export.answers import answer_model
from legcf.features.coder import FeatureCoder
from legcf.features.encoder import FeatureEncoder, FeatureMap
from legcf.features.entity_features import EntityFeatures
from legcf.ranking.builder import RankingBuilder, arrays
from legcf.ranking.ranking import Ranking
from legcf.scoring.run_files import (
    ANSWERS,
    DESCRIPTION,
    DIGEST,
    MODEL,
    RUN_FORMAT,
    RUN_FORMAT_VERSION,
    check_format,
    read_description,
)
from legcf.training import checkpoint
from legcf.training.build import Model, make_model, require_packages
from legcf.training.registry import config_from_json

_BASE = "trained"  # in the folder of an updated model: the one it was updated from


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Hold a model with all it needs to recommend; the ranking's histories are its graph."""

    model: Model
    ranking: Ranking
    """As it was tested: its histories are the training pairs."""
    known: Interactions
    """Every pair that the data had."""
    config: RunConfig
    users: IdMap
    items: IdMap
    titles: list[str] | None
    metrics: dict[str, Any]
    curve: list[dict[str, Any]]
    features: EntityFeatures | None = None
    """What is known of its items besides who has them."""
    user_encoder: FeatureEncoder | None = None
    """What gives users without items a vector by their features, to be ranked by among the ranking's vectors."""
    base: "TrainedModel | None" = None
    """The model as it was last trained, where pairs have come to it since (`legcf update`)."""

    @property
    def encoder(self) -> FeatureEncoder | None:
        """Return what gives items a vector by their features, among the ranking's vectors."""
        if self.features is None or self.features.encoder is None:
            return None
        return self.features.encoder.aligned_to(self.model.layer.item_rows(), self.ranking.items)

    @property
    def card(self) -> dict[str, Any]:
        """Return the model card: how the model was made, its size and its accuracy."""
        keys = ("dataset", "method", "backbone", "preset", "protocol", "seed", "num_params", "storage_bytes")
        return {
            "name": self.metrics.get("dataset"),
            **{key: self.metrics.get(key) for key in keys},
            "metrics": self.metrics,
            "curve": self.curve,
            "config": self.config.to_json(),
        }

    @cached_property
    def full_history_ranking(self) -> Ranking:
        """Return the ranking with all known pairs as histories: what recommends, and what is exported."""
        return self.ranking if self.known is self.ranking.histories else self.ranking.with_histories(self.known)


def prepare_folder(folder: Path, config: RunConfig, dataset: Dataset, resume: bool) -> bool:
    """Make the folder of a run, or return that it has a run of the same configuration and data to go on with."""
    path = folder / "config.json"
    content = {**config.to_json(), "content_hash": dataset.content_hash}
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose another --out.")
    there = [one.name for one in folder.iterdir()] if folder.exists() else []
    if not set(there) - {"chosen", distributed.JOB}:  # a new run, or one that stopped before anything was written
        write_json(path, content)
        return False
    if not resume:
        raise UserError(f"{folder} is not empty: add --resume to continue that run, or choose another --out.")
    if not path.exists():
        raise UserError(f"{folder} holds no run to resume, but other files: choose another --out.")
    before = read_json(path)
    if not isinstance(before, Mapping):
        raise UserError(f"{path} is not the configuration of a run; choose another --out.")
    if before.get("content_hash") != content["content_hash"]:
        raise UserError(f"{folder} was started on other data (or another split); resume it with the same data.")
    if changed := _difference(migrated(before), content):
        raise UserError(
            f"{folder} was started with {changed[0]} = {changed[1]!r}, now it is {changed[2]!r};"
            " resume with the same settings or start a new run."
        )
    return True


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> tuple[str, Any, Any] | None:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if changed := _difference(old, new, f"{prefix}{key}."):
                return changed
        elif old != new:
            return f"{prefix}{key}", old, new
    return None


def remove_unfinished(folder: Path) -> None:
    """Delete the folder of a run that failed before there was anything to resume; not one that another process has."""
    if folder.is_dir() and not (folder / "checkpoint" / "state.safetensors").exists():
        with suppress(UserError), folder_held(folder):
            shutil.rmtree(folder)


def save_model(folder: Path, trained: TrainedModel) -> None:
    """Write a model, what it answers from, and the model that it was updated from."""
    digest = _save_arrays(folder, trained)
    answers = answer_model(trained)
    if answers is None:
        (folder / ANSWERS).unlink(missing_ok=True)
    else:
        answers.card[DIGEST] = digest
        answers.save(folder / ANSWERS)
    if trained.base is not None:
        _save_arrays(folder / _BASE, trained.base)


def _save_arrays(folder: Path, trained: TrainedModel) -> str:
    """Write arrays and description of a model; return the checksum of the arrays."""
    groups = {
        "model": trained.model.state_dict(),
        "users": trained.users.to_arrays(),
        "items": trained.items.to_arrays(),
        "ranking": arrays(trained.ranking),
        "train": _pairs(trained.ranking.histories),
        "known": {} if trained.known is trained.ranking.histories else _pairs(trained.known),
        "titles": text_to_arrays(trained.titles) if trained.titles is not None else {},
        "dislikes": {} if trained.ranking.dislikes is None else _pairs(trained.ranking.dislikes),
        "features": trained.features.arrays() if trained.features is not None else {},
        "user_features": trained.user_encoder.mapping.arrays() if trained.user_encoder is not None else {},
    }
    mark = {"format": RUN_FORMAT, "format_version": RUN_FORMAT_VERSION}
    checkpoint.save(folder / MODEL, groups, mark)
    digest = _digest(folder / MODEL)
    description = {
        **mark,
        DIGEST: digest,
        "legcf_version": __version__,
        "config": trained.config.to_json(),
        "metrics": trained.metrics,
        "curve": trained.curve,
        **({} if trained.features is None else {"features": {"coder": trained.features.coder.to_json()}}),
        **({} if trained.user_encoder is None else {"user_features": trained.user_encoder.coder.to_json()}),
    }
    write_json(folder / DESCRIPTION, description)
    return digest


def load_model(folder: Path) -> TrainedModel:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a run: it is not a folder. `legcf train DATA --out {folder}` makes one.")
    if not (folder / DESCRIPTION).exists():
        begun = (folder / "config.json").exists()
        hint = "continue it with `legcf train … --resume`" if begun else "name another folder"
        raise UserError(f"{folder} holds no finished model (model.json is missing): {hint}.")
    description = read_description(folder)
    groups, facts = checkpoint.load(folder / MODEL)
    check_format(folder / MODEL, facts)
    if _digest(folder / MODEL) != description.get(DIGEST):
        raise UserError(f"{folder / MODEL} is damaged or of another run; take another copy.")
    try:
        config = config_from_json(description["config"])
        require_packages(config)
        threads.use()  # once torch, if it is needed, is there
        users = IdMap.from_arrays(groups["users"], "user")
        items = IdMap.from_arrays(groups["items"], "item")
        train = _interactions(groups["train"], len(users), len(items))
        known = _interactions(groups["known"], len(users), len(items)) if groups.get("known") else train
        titles = text_from_arrays(groups["titles"]) if groups.get("titles") else None
        ranking_arrays = groups.get("ranking", {})
        half_life = config.ranking.half_life_items  # weights then say what is recent, and nothing was learnt by them
        plain = train if half_life is None else replace(train, weights=None)
        model = make_model(config, plain, lambda model: model.load_state_dict(groups["model"]))
        ranking = RankingBuilder(config.ranking).from_arrays(model.ranking(), ranking_arrays)
        ranking = ranking if half_life is None else ranking.with_recency(train, float(half_life))
        if groups.get("dislikes"):
            dislikes = _interactions(groups["dislikes"], len(users), len(items))
            ranking = replace(ranking, dislikes=dislikes)
        features = None
        if groups.get("features"):
            coder = FeatureCoder.from_json(description["features"]["coder"])
            features = EntityFeatures.restored(groups["features"], coder, len(items))
        user_encoder = None
        if groups.get("user_features"):
            coder = FeatureCoder.from_json(description["user_features"])
            user_encoder = FeatureEncoder(coder, FeatureMap.restored(groups["user_features"]))
    except UserError:
        raise
    except (LookupError, TypeError, RuntimeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{folder} is damaged ({reason}); take another copy or train again.") from error
    base = load_model(folder / _BASE) if (folder / _BASE / DESCRIPTION).exists() else None
    return TrainedModel(
        model, ranking, known, config, users, items, titles, description["metrics"], description["curve"], features,
        user_encoder, base,
    )  # fmt: skip


def read_vectors(path: Path, counts: tuple[int, int], width: int) -> tuple[FloatArray, FloatArray]:
    """Read a warm start, of a run or of any file that `legcf compress` reads.

    Return user and item vectors in the dataset's order (ids sorted), with as many rows and `width` columns."""
    if path.is_dir():
        ranking = load_model(path).ranking
        users, items = ranking.users, ranking.items
    else:
        table = read_table(path, num_users=None)
        if table.users is None:
            raise UserError(f"{path} holds one matrix; a warm start needs the vectors of users and of items.")
        users, items = np.asarray(table.users, np.float32), np.asarray(table.items, np.float32)
    if (len(users), len(items)) != counts:
        raise UserError(
            f"{path} has {len(users):,} users and {len(items):,} items, the data {counts[0]:,} and {counts[1]:,}."
        )
    if users.shape[1] != width:
        raise UserError(
            f"{path} has vectors of {users.shape[1]}, the codebook of {width}: set method.dim to the former."
        )
    if not (np.isfinite(users).all() and np.isfinite(items).all()):
        raise UserError(f"{path} holds NaN or infinite values, so nothing can start from it.")
    return users, items


def _digest(path: Path) -> str:
    """Return a checksum: safetensors has none, and a flipped bit in an index must not get as far as compiled code."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pairs(interactions: Interactions) -> Arrays:
    weights = {} if interactions.weights is None else {"weights": interactions.weights}
    return {"indptr": interactions.indptr, "items": interactions.items, **weights}


def _interactions(pairs: Arrays, num_users: int, num_items: int) -> Interactions:
    weights = pairs.get("weights")
    if weights is not None and (len(weights) != len(pairs["items"]) or not np.isfinite(weights).all()):
        raise ValueError("its weights do not fit its pairs")
    loaded = Interactions(pairs["indptr"].astype(np.int64), pairs["items"].astype(np.int32), num_items, weights)
    if loaded.num_users != num_users:
        raise ValueError("its pairs do not fit its users")
    return loaded.checked("known")
