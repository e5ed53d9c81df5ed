# SPDX-License-Identifier: Apache-2.0
"""The paper's tables and figures as cells. A new study is a function and one line in STUDIES."""

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from legcf.core.errors import UserError
from legcf.embeddings.base import ComparisonRow
from legcf.experiments.cells import Cell, Setting, with_overrides
from legcf.training.registry import METHODS

QUICK_EPOCHS = 12
"""Of either stage of LEGCF, for every row: none is ended by time or patience, so rows have learned for equally long."""
RIVAL_MINUTES = 15.0
"""Of one core, for a method that LEGCF is compared with and that has not converged before. They are minutes of the
processor, not of the clock on the wall: a busy machine changes hardly anything."""

_RIVAL_EPOCHS, _RIVAL_PATIENCE = 100, 5

# Every step propagates over the whole graph, so few large batches and the grid's highest rate.
_QUICK_STEPWISE = {"batch_size": 16384, "learning_rate": 1e-2, "checkpoint_seconds": 60}
_NO_PATIENCE = 10**6
_WATCHED = {"monitor": "ndcg@20", "validation_users": 5000}
_STEPS_PER_EPOCH = 100  # of a quick run on the basis, where an epoch takes seconds
_SMALLEST_BATCH, _LARGEST_BATCH = 256, 8192
_RATE_OF_LARGEST = 1e-2
_MANY_PAIRS = 10**6  # where their number is not known
_SMALLEST_POOL, _PAIRS_A_NEGATIVE = 512, 4  # of negatives that a batch shares: a step costs what it has of entities
_USUAL_BUCKETS, _FEW_BUCKETS = 500, 100
_LARGE_CODEBOOK = 1000  # above it the basis is larger than the table it stands for, so steps propagate
_REFIT = {"method": {"update": "pinv-refit"}}
_LIGHTGCN = "lightgcn"
_BASES: dict[str, tuple[str, dict[str, Any]]] = {
    _LIGHTGCN: ("LightGCN", {}),
    # As its paper has it (Eq. 7), and without dropout, which LightGCN has not either. The authors' code scales layers
    # to length 1; in as few steps as these it learns popularity and little else from LEGCF's rows on Gowalla.
    "ngcf": ("NGCF", {"adjacency": "sym", "activation": "joint", "normalise": False, "message_dropout": 0.0}),
    "lr-gccf": ("LR-GCCF", {}),
}
"""Base recommenders: their names in the paper, and the settings that they have in the study."""


@dataclass(frozen=True)
class Study:
    """`title` and `cells` of a table or figure; `kind` says how the report shows it."""

    title: str
    kind: str
    cells: Callable[[Setting], list[Cell]]


def table2(setting: Setting) -> list[Cell]:
    """All methods at (or near) LEGCF's size, beside the full table.

    Rivals have one loss, and one start wherever a layer can be fitted to a factorisation, each at a rate that was
    searched for, and are trained until they converge or their time is up: their rows differ in the method alone."""
    return [
        *(_rival(setting, method, name, row) for method, name, row in _rival_rows()),
        _legcf(setting, "legcf", "LEGCF (paper, closed form)", group="LEGCF"),
        _legcf(setting, "legcf-refit", "LEGCF (paper, refitted)", _REFIT, group="LEGCF"),
        _ours(setting, "graph-pursuit", "LEGCF (paper, matching pursuit)"),
        _ours(setting, "items-only", "LEGCF (ours, items only)"),
        _ours(setting, "default", "LEGCF (our default)"),
    ]


def converged(setting: Setting) -> list[Cell]:
    """The paper's model trained until validation stops rising, with each update; the closed form at c > d and c < d.

    The closed form ends with the best of its second stage, as the release does, or its pretraining would be shown."""
    closed = {"method": {"update": "pinv"}, "training": {"keep": "last-stage"}}
    few = min(_FEW_BUCKETS, setting.buckets)
    return [
        _ours(setting, "graph-pursuit", "matching pursuit"),
        _ours(setting, "graph", "closed form", "pinv", closed),
        _ours(
            setting, "graph", f"closed form, c = {few}", f"pinv-{few}", with_overrides(closed, {"method": {"c": few}})
        ),
        _ours(setting, "graph", "refitted"),
    ]


def ablation(setting: Setting) -> list[Cell]:
    """Assignment update off or by each solver, anchors by METIS or at random, all for equally many epochs."""
    solvers = {"on": ("pinv", "closed form"), "refit": ("pinv-refit", "refitted"), "pursuit": ("matching-pursuit",) * 2}
    starts = {"metis": "METIS", "random": "random"}
    cells = []
    for start, named in starts.items():
        begun = {"method": {"start": start}} if start != "metis" else {}
        off = with_overrides(begun, {"method": {"update": "none"}}, _as_long_as_two_stages(setting))
        cells.append(_legcf(setting, f"off-{start}", f"{named}, no update", off, group=named))
        for name, (solver, words) in solvers.items():
            updated = with_overrides(begun, {"method": {"update": solver}})
            cells.append(_legcf(setting, f"{name}-{start}", f"{named}, update: {words.replace('-', ' ')}", updated,
                                group=named))  # fmt: skip
    return cells


def hyperparameters(setting: Setting) -> list[Cell]:
    """Sweeps over t, m, w* and c around the paper's setting (Figure 4), with refitted weights."""
    sweeps: dict[str, tuple[str, tuple[float, ...]]] = {
        "t": ("t", (1, 2, 3, 4, 5)),
        "m": ("update_every", (1, 2, 3, 5, 10)),
        "w": ("anchor_weight", (0.5, 0.6, 0.7, 0.8, 0.9)),
        "c": ("c", tuple(c for c in (100, 500, 1000, 5000, 10000) if c * 4 <= setting.num_entities)),
    }
    cells = []
    for name, (option, values) in sweeps.items():
        for value in values:
            overrides = with_overrides(_REFIT, {"method": {option: value}})
            if name == "c" and value > _LARGE_CODEBOOK:
                overrides["training"] = {"propagation": "stepwise", **_stepwise(setting)}
            cells.append(_legcf(setting, f"{name}={value:g}", f"{name} = {value:g}", overrides, group=name))
    return cells


def backbones(setting: Setting) -> list[Cell]:
    """LEGCF and full tables, wide and of similar size, on three base recommenders (Table 4).

    Full tables are trained as those of Table 2 are: with the same loss, until they converge or their time is up."""
    return [cell for base in _BASES for cell in (_legcf_on(setting, base), *_tables_on(setting, base))]


def searched(setting: Setting) -> dict[str, Cell]:
    """Rows whose learning rate is searched for, by the name that the rate has in rates.json. On a base recommender the
    full table of 64 stands for all widths."""
    rivals = {cell.name: cell for cell in table2(setting) if cell.method != "legcf"}
    for base in _BASES:
        if base != _LIGHTGCN:
            rivals[f"{base}-legcf"] = _legcf_on(setting, base)
            (rivals[f"{base}-ud"],) = (cell for cell in _tables_on(setting, base) if cell.name == f"{base}-ud-64")
    return rivals


def rate_at(rate: float, batch_size: int) -> float:
    """A rate of rates.json for batches of another size: rates go with the root of the batch."""
    return float(f"{rate * (batch_size / _rates_file()['batch_size']) ** 0.5:.2g}")


def figures(setting: Setting) -> list[Cell]:
    """The states that the case studies look at: before training, after pretraining, and after the last update."""
    return [
        _legcf(setting, "at-start", "initialisation", {"training": {"epochs": 0}}),
        _legcf(setting, "pretrained", "after pretraining", {"method": {"update": "none"}}),
        _legcf(setting, "at-end", "after the updates", with_overrides(_REFIT, {"training": {"keep": "last"}})),
    ]


STUDIES: dict[str, Study] = {
    "table2": Study("Table 2: accuracy and size of all methods", "table", table2),
    "converged": Study("LEGCF to its end, with each update", "table", converged),
    "ablation": Study("Ablation: assignment update and initialisation", "table", ablation),
    "hyperparameters": Study("Hyperparameters: t, m, w* and c", "sweep", hyperparameters),
    "backbones": Study("Base recommenders", "table", backbones),
    "figures": Study("Case studies: embeddings and assignment weights", "case study", figures),
}
EFFORTS = ("quick", "full")


def chosen_studies(name: str) -> list[str]:
    if name == "all":
        return list(STUDIES)
    if name not in STUDIES:
        raise UserError(f"There is no study `{name}` to reproduce: choose one of {', '.join(STUDIES)}, or all.")
    return [name]


def _legcf(
    setting: Setting,
    name: str,
    label: str,
    overrides: Mapping[str, Any] | None = None,
    backbone: str | None = None,
    group: str = "",
) -> Cell:
    """LEGCF as the text has it; other settings are named by what differs."""
    base: dict[str, Any] = {"training": _quick_basis(setting)}
    if setting.buckets != _USUAL_BUCKETS:
        base["method"] = {"c": setting.buckets}
    merged = with_overrides(base, _limits(setting), setting.overrides, overrides or {})
    return Cell(name, label, "legcf", ("paper",), merged, backbone, group, keep_state=True)


def _quick_basis(setting: Setting) -> dict[str, Any]:
    """About a hundred steps per epoch, and a rate that falls with the root of the batch."""
    if setting.preset != "quick":
        return {}
    batch = _batch(setting)
    return {
        "batch_size": batch, "negative_pool": _pool(batch), "learning_rate": _rate(batch),
        "epochs": QUICK_EPOCHS, "patience": _NO_PATIENCE,
        **_WATCHED,
    }  # fmt: skip


def _pool(batch: int) -> int:
    return max(_SMALLEST_POOL, batch // _PAIRS_A_NEGATIVE)


def _rate(batch: int) -> float:
    return float(f"{_RATE_OF_LARGEST * (batch / _LARGEST_BATCH) ** 0.5:.2g}")


def _batch(setting: Setting) -> int:
    """The power of two that is next to a hundredth of the pairs."""
    if setting.num_pairs is None:
        return _LARGEST_BATCH
    nearest = 1 << round(math.log2(max(setting.num_pairs / _STEPS_PER_EPOCH, 1)))
    return max(_SMALLEST_BATCH, min(_LARGEST_BATCH, nearest))


def _as_long_as_two_stages(setting: Setting) -> dict[str, Any]:
    """Without an update there is one stage: it is given the epochs of both."""
    return {"training": {"epochs": 2 * QUICK_EPOCHS}} if setting.preset == "quick" else {}


def _ours(
    setting: Setting, preset: str, label: str, name: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Cell:
    """A preset as it is, but for data that are much smaller than those it was made for."""
    made_for = METHODS["legcf"].layer.presets[preset]
    changed: dict[str, Any] = {}
    if setting.buckets != _USUAL_BUCKETS:
        changed["method"] = {"c": setting.buckets} if "c" in made_for["method"] else {"budget": setting.budget}
    batch = _batch(setting)
    if batch < made_for["training"]["batch_size"] == _LARGEST_BATCH:
        changed["training"] = {"batch_size": batch, "learning_rate": _rate(batch), "negative_pool": _pool(batch)}
    merged = with_overrides(changed, _limits(setting, layers=False), setting.overrides, overrides or {})
    return Cell(name or preset, label, "legcf", (preset,), merged, group="LEGCF")


def _cell(
    setting: Setting,
    name: str,
    label: str,
    method: str,
    overrides: Mapping[str, Any] | None = None,
    backbone: str | None = None,
    group: str = "",
    reference: bool = False,
) -> Cell:
    """A method with its own quick preset where it has one, else with the settings made for two cores."""
    presets = ("quick", "default") if setting.preset == "quick" else ("paper", "default")
    changed: dict[str, Any] = {}
    if setting.preset == "quick" and _batch(setting) < _LARGEST_BATCH:
        changed["batch_size"] = _batch(setting)
    plain = Cell(name, label, method, presets, {}, backbone, group, reference=reference)
    if plain.config(0).training.max_minutes is not None:
        changed["max_minutes"] = None
    merged = with_overrides({"training": changed}, _limits(setting), setting.overrides, overrides or {})
    return replace(plain, overrides=merged)


def _rival_rows() -> Iterator[tuple[str, str, ComparisonRow]]:
    """Method, name and row of everything that LEGCF is compared with."""
    for method, known in METHODS.items():
        if method != "legcf" and known.layer.comparison_rows is not None:
            for name, row in (known.layer.comparison_rows or {method: ComparisonRow(method)}).items():
                yield method, name, row


def _rival(setting: Setting, method: str, name: str, row: ComparisonRow) -> Cell:
    within = {"method": {"budget": setting.budget}} if row.within_budget else {}
    changed = with_overrides(row.overrides, within, row.fitted, _one_loss(setting, name))
    return _cell(setting, name, row.label, method, changed, group=row.group, reference=row.reference)


def _one_loss(setting: Setting, name: str) -> dict[str, Any]:
    """The paper's loss; quick runs have it at the rate that was found on small data, for larger batches raised by their
    root, and end when they converge or their time is up."""
    training: dict[str, Any] = {
        "loss": "bpr", "temperature": 1.0, "negatives": 5, "negative_weight": 1.0, "user_power": 0.0,
    }  # fmt: skip
    if setting.preset == "quick":
        batch = _rival_batch(setting)
        training |= {
            "batch_size": batch, "negative_pool": _pool(batch), "schedule": "constant", **_WATCHED,
            "epochs": _RIVAL_EPOCHS, "patience": _RIVAL_PATIENCE,
            "max_minutes": setting.minutes or RIVAL_MINUTES, "clock": "cpu",
        }  # fmt: skip
        training |= _found_rate(setting, name, batch)
    return {"training": training, "ranking": {"norm_power": 1.0}}


def _found_rate(setting: Setting, name: str, batch: int) -> dict[str, float]:
    """The rate, and L2 where it was found to help, of the data that is nearest in size and has the row; nothing where
    none was searched for."""
    pairs = setting.num_pairs or _MANY_PAIRS
    for one in sorted(_rates_file()["found"].values(), key=lambda one: abs(math.log(pairs / one["pairs"]))):
        if name in one["rates"]:
            l2 = {"l2": one["l2"][name]} if name in one["l2"] else {}
            return {"learning_rate": rate_at(one["rates"][name], batch)} | l2
    return {}


@functools.cache
def _rates_file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        resources.files("legcf.experiments").joinpath("rates.json").read_text(encoding="utf-8")
    )
    return found


def _legcf_on(setting: Setting, base: str) -> Cell:
    """Only LightGCN with a small codebook trains on the basis quickly enough for small batches."""
    label, settings = _BASES[base]
    if base == _LIGHTGCN:
        return _legcf(setting, f"{base}-legcf", f"{label}, LEGCF", _REFIT, group=label)
    training = _stepwise(setting)
    if training:
        training |= _found_rate(setting, f"{base}-legcf", training["batch_size"])
    changed = with_overrides(_REFIT, {"training": training, "backbone": settings})
    return _legcf(setting, f"{base}-legcf", f"{label}, LEGCF", changed, base, label)


def _tables_on(setting: Setting, base: str) -> list[Cell]:
    """Full tables: of LEGCF's size, then wide ones."""
    label, settings = _BASES[base]
    similar = setting.width_within_budget
    return [
        _cell(
            setting, f"{base}-ud" if width == similar else f"{base}-ud-{width}", f"{label}, UD, {width} wide", "full",
            with_overrides(
                {"method": {"dim": width}, "backbone": settings},
                _one_loss(setting, f"ud-{max(width, 64)}" if base == _LIGHTGCN else f"{base}-ud"),
            ),
            None if base == _LIGHTGCN else base, label, reference=width != similar,
        )
        for width in dict.fromkeys((similar, 64, 128))
    ]  # fmt: skip


def _rival_batch(setting: Setting) -> int:
    """Most rivals propagate the whole table at every step: on large data twice as many pairs share it, as in rows of
    LEGCF that do so too."""
    batch = _batch(setting)
    return batch if batch < _LARGEST_BATCH else 2 * batch


def _stepwise(setting: Setting) -> dict[str, Any]:
    if setting.preset != "quick":
        return {}
    return {**_QUICK_STEPWISE, "batch_size": min(2 * _batch(setting), _QUICK_STEPWISE["batch_size"])}


def _limits(setting: Setting, layers: bool = True) -> dict[str, Any]:
    """The time a run may take, if the user says so, and the paper's depth where it is not the default."""
    limits: dict[str, Any] = {"training": {}}
    if setting.minutes is not None:
        limits["training"] |= {"max_minutes": setting.minutes, "clock": "cpu"}
    if layers and setting.layers != 3:
        limits["backbone"] = {"layers": setting.layers}
    return limits
