# SPDX-License-Identifier: Apache-2.0
"""Name the methods and backbones, and make a configuration of them.

A new one is one file and one line here, or an entry point of another package.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from legcf.backbones import history, lightgcn, lr_gccf, ngcf
from legcf.backbones.base import Backbone
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
from legcf.embeddings.base import EmbeddingLayer
from legcf.embeddings.baselines import als, bspm, chebycf, ease, item_knn, most_popular
from legcf.embeddings.clustered import cce, cel, graphhash
from legcf.embeddings.composed import binary_code, c2f, dhe, double_hash, lerg, lightrec, nimble_tt, qr
from legcf.embeddings.composed.legcf import Legcf
from legcf.embeddings.full import FullTable
from legcf.embeddings.sized.autoemb import AutoEmb
from legcf.embeddings.sized.bigear import Bigear
from legcf.embeddings.sized.cerp import Cerp
from legcf.embeddings.sized.ciess import Ciess
from legcf.embeddings.sized.esapn import Esapn
from legcf.embeddings.sized.magprune import MagPrune
from legcf.embeddings.sized.optembed import OptEmbed
from legcf.embeddings.sized.pep import Pep
from legcf.training.losses import check_batches
from legcf.training.recipes import (
    alternating,
    autoemb,
    ciess,
    clustering,
    compositional,
    esapn,
    optembed,
    pruning,
    quantising,
)
from legcf.training.stage import Stage, closed_form, single_stage


@dataclass(frozen=True)
class Method:
    """Join an embedding layer and the stages that train it."""

    layer: type[EmbeddingLayer[Any]]
    recipe: Callable[[Any, TrainingConfig], Sequence[Stage[Any]]]
    """The method's own settings and those of training → the stages."""


METHODS: Registry[Method] = Registry(
    "method",
    "legcf.methods",
    lambda part: isinstance(part, Method),
    {
        "legcf": Method(Legcf, alternating.stages),
        "full": Method(FullTable, single_stage),
        "esapn": Method(Esapn, esapn.stages),
        "autoemb": Method(AutoEmb, autoemb.stages),
        "optembed": Method(OptEmbed, optembed.stages),
        "dhe": Method(dhe.DeepHash, single_stage),
        "nimble-tt": Method(nimble_tt.NimbleTT, single_stage),
        "ciess": Method(Ciess, ciess.stages),
        "cel": Method(cel.Cel, clustering.stages),
        "pep": Method(Pep, pruning.stages),
        "qr": Method(qr.QuotientRemainder, single_stage),
        "double-hash": Method(double_hash.DoubleHash, single_stage),
        "binary-code": Method(binary_code.BinaryCode, single_stage),
        "cerp": Method(Cerp, pruning.pushed_stages),
        "magprune": Method(MagPrune, pruning.magnitude_stages),
        "cce": Method(cce.Cce, compositional.stages),
        "c2f": Method(c2f.C2f, alternating.refined_stages),
        "lerg": Method(lerg.Lerg, quantising.lerg_stages),
        "bigear": Method(Bigear, quantising.bigear_stages),
        "graphhash": Method(graphhash.GraphHash, single_stage),
        "lightrec": Method(lightrec.LightRec, quantising.stages),
        "popularity": Method(most_popular.MostPopular, closed_form),
        "item-knn": Method(item_knn.ItemKnn, closed_form),
        "ease": Method(ease.Ease, closed_form),
        "als": Method(als.Als, closed_form),
        "chebycf": Method(chebycf.ChebyCf, closed_form),
        "bspm": Method(bspm.Bspm, closed_form),
    },
)

COMMON_SECTIONS: dict[str, type[Frozen]] = {"training": TrainingConfig, "ranking": RankingConfig}
"""Settings that every method has."""

DEFAULT_BACKBONE = "lightgcn"

BACKBONES: Registry[type[Backbone[Any]]] = Registry(
    "backbone",
    "legcf.backbones",
    lambda part: isinstance(part, type) and issubclass(part, Backbone),
    {"lightgcn": lightgcn.LightGCN, "history": history.History, "lr-gccf": lr_gccf.LRGCCF, "ngcf": ngcf.NGCF},
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
    options = merged(settings, with_current_keys(overrides or {}, method))
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
    check_batches(config.training)
    return config


def config_from_json(content: Mapping[str, Any]) -> RunConfig:
    """Read the configuration of a saved run, also of one that an earlier version wrote."""
    content = migrated(content)
    try:
        method, backbone = content["method"]["name"], content["backbone"]["name"]
        layer = find_part("method", method, METHODS).layer
        return RunConfig(
            preset=content["preset"],
            seed=content["seed"],
            method=validated(layer.Config, content["method"], "method"),
            backbone=validated(find_part("backbone", backbone, BACKBONES).Config, content["backbone"], "backbone"),
            **{name: validated(model, content[name], name) for name, model in COMMON_SECTIONS.items()},
            data=content.get("data", {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"This is not a configuration of legcf: {reason} is missing or of the wrong kind.") from error
