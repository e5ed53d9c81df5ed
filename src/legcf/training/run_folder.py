# SPDX-License-Identifier: Apache-2.0
"""A trained model in its run folder: model.safetensors holds every array, model.json says what they are. No pickle."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from legcf import __version__
from legcf.core import threads
from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.core.files import read_json, write_json
from legcf.data.ids import IdMap, text_from_arrays, text_to_arrays
from legcf.data.interactions import Interactions
from legcf.features.cold_items import ColdItemEncoder
from legcf.features.known import ItemFeatures
from legcf.ranking.builder import RankingBuilder, arrays
from legcf.ranking.ranking import Ranking
from legcf.training import checkpoint
from legcf.training.model import GraphModel
from legcf.training.registry import BACKBONES, METHODS, config_from_json

_FORMAT = "legcf-model"
_FORMAT_VERSION = 2
_BASE = "trained"  # in the folder of an updated model: the one it was updated from
_READABLE = (1, 2)  # up to 1, settings and weight of ranking stood among those of training


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with all it needs to recommend; the ranking's histories are its graph."""

    model: GraphModel
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
    features: ItemFeatures | None = None
    """What is known of its items besides who has them."""
    base: "TrainedModel | None" = None
    """The model as it was last trained, where pairs have come to it since (`legcf update`)."""

    @property
    def encoder(self) -> ColdItemEncoder | None:
        """How items are placed by what is known of them, among the ranking's vectors."""
        if self.features is None or self.features.encoder is None:
            return None
        layer = self.model.layer
        with torch.no_grad():
            own = layer.rows(torch.arange(layer.num_users, layer.num_entities)).numpy()
        return self.features.encoder.aligned_to(own, self.ranking.items)

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

    @cached_property
    def full_history_ranking(self) -> Ranking:
        """The ranking with all that is known of its users: what recommends, and what is exported."""
        return self.ranking if self.known is self.ranking.histories else self.ranking.with_histories(self.known)


def save_model(folder: Path, trained: TrainedModel) -> None:
    groups = {
        "model": trained.model.state_dict(),
        "users": _tensors(trained.users.to_arrays()),
        "items": _tensors(trained.items.to_arrays()),
        "ranking": _tensors(arrays(trained.ranking)),
        "train": _pairs(trained.ranking.histories),
        "known": {} if trained.known is trained.ranking.histories else _pairs(trained.known),
        "titles": _tensors(text_to_arrays(trained.titles)) if trained.titles is not None else {},
        "features": _tensors(trained.features.arrays()) if trained.features is not None else {},
    }
    mark = {"format": _FORMAT, "format_version": _FORMAT_VERSION}
    checkpoint.save(folder / "model.safetensors", groups, mark)
    description = {
        **mark,
        "sha256": _digest(folder / "model.safetensors"),
        "legcf_version": __version__,
        "config": trained.config.to_json(),
        "metrics": trained.metrics,
        "curve": trained.curve,
        **({} if trained.features is None else {"features": trained.features.facts()}),
    }
    write_json(folder / "model.json", description)
    if trained.base is not None:
        save_model(folder / _BASE, trained.base)


def load_model(folder: Path) -> TrainedModel:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a run: it is not a folder. `legcf train DATA --out {folder}` makes one.")
    if not (folder / "model.json").exists():
        hint = (
            "continue it with `legcf train … --resume`" if (folder / "config.json").exists() else "name another folder"
        )
        raise UserError(f"{folder} holds no finished model (model.json is missing): {hint}.")
    description = read_description(folder)
    threads.use()
    groups, facts = checkpoint.load(folder / "model.safetensors")
    _check_format(folder / "model.safetensors", facts)
    if _digest(folder / "model.safetensors") != description.get("sha256"):
        raise UserError(f"{folder / 'model.safetensors'} is damaged or of another run; take another copy.")
    try:
        config = config_from_json(description["config"])
        users = IdMap.from_arrays(_arrays(groups["users"]), "user")
        items = IdMap.from_arrays(_arrays(groups["items"]), "item")
        train = _interactions(groups["train"], len(users), len(items))
        known = _interactions(groups["known"], len(users), len(items)) if groups.get("known") else train
        titles = text_from_arrays(_arrays(groups["titles"])) if groups.get("titles") else None
        layer = METHODS[config.method.name].layer(config.method, len(users), len(items))
        # To recommend, rows are propagated once; a basis pays only when there are many steps.
        once = config.training.model_copy(update={"propagation": "stepwise"})
        backbone = BACKBONES[config.backbone.name](config.backbone, layer.width)
        model = GraphModel(layer, backbone, train, once)
        chosen = _arrays(groups.get("ranking", {}))
        model.load_state_dict(groups["model"])
        metrics, curve = description["metrics"], description["curve"]
        features = None
        if groups.get("features"):
            features = ItemFeatures.restored(_arrays(groups["features"]), description["features"], len(items))
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{folder} is damaged ({str(error).splitlines()[0]}); take another copy or train again."
        ) from error
    model.eval()
    model.rebuild()
    ranking = RankingBuilder(config.ranking).from_arrays(model.ranking(), chosen)
    base = load_model(folder / _BASE) if (folder / _BASE / "model.json").exists() else None
    return TrainedModel(model, ranking, known, config, users, items, titles, metrics, curve, features, base)


def read_description(folder: Path) -> dict[str, Any]:
    """model.json of a run, checked to be one."""
    description = read_json(folder / "model.json")
    _check_format(folder / "model.json", description)
    return dict(description)


def _digest(path: Path) -> str:
    """Safetensors has no checksum of its own, and a flipped bit in an index must not get as far as compiled code."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_format(path: Path, facts: Any) -> None:
    if not isinstance(facts, Mapping) or facts.get("format") != _FORMAT:
        raise UserError(f"{path} was not written by legcf; give a folder that `legcf train` made.")
    if facts.get("format_version") not in _READABLE:
        raise UserError(
            f"{path} has format version {facts.get('format_version')}, this legcf reads up to {_FORMAT_VERSION};"
            " train again."
        )


def _pairs(interactions: Interactions) -> checkpoint.Tensors:
    weights = {} if interactions.weights is None else {"weights": interactions.weights}
    return _tensors({"indptr": interactions.indptr, "items": interactions.items, **weights})


def _interactions(tensors: Mapping[str, torch.Tensor], num_users: int, num_items: int) -> Interactions:
    pairs = _arrays(tensors)
    weights = pairs.get("weights")
    if weights is not None and (len(weights) != len(pairs["items"]) or not np.isfinite(weights).all()):
        raise ValueError("its weights do not fit its pairs")
    found = Interactions(pairs["indptr"].astype(np.int64), pairs["items"].astype(np.int32), num_items, weights)
    if found.num_users != num_users or int(found.indptr[-1]) != found.num_pairs:
        raise ValueError("its pairs do not fit its users")
    return found


def _tensors(arrays: Mapping[str, np.ndarray]) -> checkpoint.Tensors:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
