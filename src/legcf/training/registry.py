# SPDX-License-Identifier: Apache-2.0
"""Name the methods and backbones, and make a configuration of them.

A new one is one file and one line here, or an entry point of another package.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from legcf.backbones.base import Backbone
from legcf.backbones.history import History
from legcf.backbones.lightgcn import LightGCN
from legcf.core.config import (
    Frozen,
    RankingConfig,
    RunConfig,
    TrainingConfig,
    merged,
    migrated,
    unknown_key,
    validated,
    with_current_keys,
)
from legcf.core.errors import UserError
from legcf.core.plugins import Registry, find_part
from legcf.embeddings.baselines.als import Als
from legcf.embeddings.baselines.ease import Ease
from legcf.embeddings.baselines.item_knn import ItemKnn
from legcf.embeddings.baselines.most_popular import MostPopular
from legcf.embeddings.full import SolvedTable
from legcf.embeddings.layer import Layer
from legcf.embeddings.legcf_codes import SolvedCodes
from legcf.training.recipes import alternating
from legcf.training.stage import Stage, closed_form, single_stage

if TYPE_CHECKING:
    from legcf.embeddings.base import EmbeddingLayer


@dataclass(frozen=True)
class Method:
    """Join an embedding layer and the stages that train it."""

    layer: type[Layer[Any]]
    recipe: Callable[[Any, TrainingConfig], Sequence[Stage[Any]]]
    """The method's own settings and those of training → the stages."""
    learner: Callable[[], "type[EmbeddingLayer[Any]]"] | None = None
    """Imports the layer that is trained, where `layer` only solves."""

    @property
    def trained_layer(self) -> type[Layer[Any]]:
        return self.layer if self.learner is None else self.learner()


def _imported(part: str) -> Any:
    """Return what is named as in an entry point, below `legcf.`: torch is imported by what needs it."""
    module, _, name = part.partition(":")
    return getattr(import_module(f"legcf.{module}"), name)


METHODS_OF_STUDIES = (
    "autoemb", "bigear", "binary-code", "bspm", "c2f", "cce", "cel", "cerp", "chebycf", "ciess", "dhe", "double-hash",
    "esapn", "graphhash", "lerg", "lightrec", "magprune", "nimble-tt", "optembed", "pep", "qr",
)  # fmt: skip
"""Methods of the package `legcf-studies`."""

METHODS: Registry[Method] = Registry(
    "method",
    "legcf.methods",
    lambda part: isinstance(part, Method),
    {
        "legcf": Method(SolvedCodes, alternating.stages, lambda: _imported("embeddings.legcf:Legcf")),
        "full": Method(SolvedTable, single_stage, lambda: _imported("embeddings.full_trained:FullTable")),
        "popularity": Method(MostPopular, closed_form),
        "item-knn": Method(ItemKnn, closed_form),
        "ease": Method(Ease, closed_form),
        "als": Method(Als, closed_form),
    },
    METHODS_OF_STUDIES,
)

COMMON_SECTIONS: dict[str, type[Frozen]] = {"training": TrainingConfig, "ranking": RankingConfig}
"""Settings that every method has."""

DEFAULT_BACKBONE = "lightgcn"

BACKBONES: Registry[type[Backbone[Any]]] = Registry(
    "backbone",
    "legcf.backbones",
    lambda part: isinstance(part, type) and issubclass(part, Backbone),
    {"lightgcn": LightGCN, "history": History},
    of_studies=("lr-gccf", "ngcf"),
)


def require_width(method: str) -> None:
    """Refuse --dim for a method without vectors."""
    if "dim" not in find_part("method", method, METHODS).layer.Config.model_fields:
        raise UserError(f"Method {method} has no vectors, so it has no width either: leave out --dim.")


def resolve(
    method: str = "legcf",
    backbone: str | None = None,
    preset: str = "default",
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Return the full configuration: defaults, then the method's preset, then `overrides`, every key checked."""
    layer = find_part("method", method, METHODS).layer
    settings = find_part(f"preset of method {method}", preset, layer.presets)
    made_for = settings.get("backbone", {}).get("name", DEFAULT_BACKBONE)
    backbone = backbone or made_for
    backbone_type = find_part("backbone", backbone, BACKBONES)
    if backbone != made_for and "name" in settings.get("backbone", {}):
        free_presets = [name for name, other in layer.presets.items() if "name" not in other.get("backbone", {})]
        raise UserError(
            f"Preset {preset} of {method} is made for backbone {made_for}; with {backbone} use --preset"
            f" {' or '.join(free_presets)}."
        )
    asked_for = with_current_keys(overrides or {}, method)
    if "epochs" in asked_for.get("training", {}):  # the preset's own number for large codes is not what was asked for
        asked_for = merged({"training": {"epochs_of_large": 0}}, asked_for)
    options = merged(settings, asked_for)
    sections: dict[str, type[Frozen]] = {"method": layer.Config, "backbone": backbone_type.Config, **COMMON_SECTIONS}
    for section, values in options.items():
        if section not in sections or not isinstance(values, Mapping):
            every = {f"{name}.{key}" for name, model in sections.items() for key in model.model_fields}
            raise UserError(unknown_key(section, every))
    for section, name in (("method", method), ("backbone", backbone)):
        if options.get(section, {}).get("name", name) != name:
            raise UserError(f"{section}.name cannot be set as an option; choose it with --{section}.")
    method_config = validated(layer.Config, {**options.get("method", {}), "name": method}, "method")
    backbone_config = validated(backbone_type.Config, {**options.get("backbone", {}), "name": backbone}, "backbone")
    layer.check(method_config, backbone_config)
    parts = {"preset": preset, "seed": seed, "method": method_config, "backbone": backbone_config}
    common = {name: validated(model, options.get(name, {}), name) for name, model in COMMON_SECTIONS.items()}
    config = validated(RunConfig, {**parts, **common, "data": dict(data or {})}, "")
    asked = {"loss", "edge_folds", "exclude_target"} & set((overrides or {}).get("training", {}))
    if asked and (config.training.edge_folds or config.training.exclude_target):  # a preset's own go together
        with suppress(ModuleNotFoundError):  # without torch nothing of the kind is trained, and the run says so
            from legcf.training.learning.losses import check_batches

            check_batches(config.training)
    return config


def config_from_json(content: Mapping[str, Any]) -> RunConfig:
    """Read the configuration of a saved run, also of one that an earlier version wrote."""
    content = migrated(content)
    try:
        method, backbone = content["method"]["name"], content["backbone"]["name"]
        own = find_part("method", method, METHODS).layer.Config, find_part("backbone", backbone, BACKBONES).Config
        sections = {"method": own[0], "backbone": own[1], **COMMON_SECTIONS}
        parts: dict[str, Any] = {name: validated(model, content[name], name) for name, model in sections.items()}
        return RunConfig(preset=content["preset"], seed=content["seed"], data=content.get("data", {}), **parts)
    except (KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"This is not a configuration of legcf: {reason} is missing or of the wrong kind.") from error
