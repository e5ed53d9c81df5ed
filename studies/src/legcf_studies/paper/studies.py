# SPDX-License-Identifier: Apache-2.0
"""Declare the paper's tables and figures as cells. A new study is a function and one line in STUDIES."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from legcf.core.config import merged
from legcf.core.errors import UserError
from legcf.core.files import read_json
from legcf.training.registry import METHODS, Method
from legcf_studies.methods.common import ComparisonRow
from legcf_studies.paper.cells import Cell, StudyContext

QUICK_EPOCHS = 12
"""Epochs of either stage of LEGCF, in every row: none is ended by time or patience, so rows learn for equally long."""
RIVAL_MINUTES = 15.0
"""Minutes of one core, for a method that LEGCF is compared with and that has not converged before. They are minutes of
the processor, not of the clock on the wall: a busy machine changes hardly anything."""

_RIVAL_EPOCHS, _RIVAL_PATIENCE = 100, 5

# Every step propagates over the whole graph, so few large batches and the grid's highest rate.
_QUICK_STEPWISE = {"batch_size": 16384, "learning_rate": 1e-2, "checkpoint_seconds": 60}
_NO_PATIENCE = 10**6
_WATCHED = {"monitor": "ndcg@20", "validation_users": 5000}
_STEPS_PER_EPOCH = 100  # of a quick run on the basis, where an epoch takes seconds
_SMALLEST_BATCH, _LARGEST_BATCH = 256, 8192
_RATE_OF_LARGEST = 1e-2
_RELEASED_VALIDATION_USERS = 10_000  # as the presets `graph` have it
_RATES: dict[str, Any] = read_json(Path(__file__).with_name("rates.json"))
_MANY_PAIRS = 10**6  # where their number is not known
_SMALLEST_POOL, _PAIRS_A_NEGATIVE = 512, 4  # of negatives that a batch shares: a step costs what it has of entities
_USUAL_BUCKETS, _FEW_BUCKETS = 500, 100
_LARGE_CODEBOOK = 1000  # above it the basis is larger than the table it stands for, so steps propagate
_REFIT = {"method": {"update": "pinv-refit"}}
_LIGHTGCN = "lightgcn"
_ORDER = (
    "legcf", "full", "esapn", "autoemb", "optembed", "dhe", "nimble-tt", "ciess", "cel", "pep", "qr", "double-hash",
    "binary-code", "cerp", "magprune", "cce", "c2f", "lerg", "bigear", "graphhash", "lightrec", "popularity",
    "item-knn", "ease", "als", "chebycf", "bspm",
)  # fmt: skip
_ROWS_OF_LEGCF: dict[str, dict[str, ComparisonRow] | None] = {
    "full": {
        f"ud-{dim}": ComparisonRow(f"UD, {dim} wide", "full table", False, {"method": {"dim": dim}}, reference=True)
        for dim in (128, 64)
    },
    **dict.fromkeys(("popularity", "item-knn", "ease", "als")),
}
"""Rows of the methods that are legcf's own; those of others are `comparison_rows` of their layers."""
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
    """Hold title and cells of a table or figure; `kind` says how the report shows it."""

    title: str
    kind: str
    cells: Callable[[StudyContext], list[Cell]]


def table2(context: StudyContext) -> list[Cell]:
    """Return all methods at (or near) LEGCF's size, beside the full table.

    Rivals have one loss, and one start wherever a layer can be fitted to a factorisation, each at a rate that was
    searched for, and are trained until they converge or their time is up: their rows differ in the method alone."""
    return [
        *_rivals(context),
        _legcf(context, "legcf", "LEGCF (paper, closed form)", group="LEGCF"),
        _ours(context, "official", "LEGCF (paper, as released)", about=_released(context)),
        _legcf(context, "legcf-refit", "LEGCF (paper, refitted)", _REFIT, group="LEGCF"),
        _ours(context, "graph-pursuit", "LEGCF (paper, matching pursuit)"),
        _ours(context, "items-only", "LEGCF (ours, items only)"),
        _ours(context, "default", "LEGCF (our default)"),
    ]


def converged(context: StudyContext) -> list[Cell]:
    """Return the paper's model trained until validation stops rising, with each update; closed form at c > d and c < d.

    The closed form ends with the best of its second stage, as the release does, or its pretraining would be shown."""
    closed = {"method": {"update": "pinv"}, "training": {"keep": "last-stage"}}
    few = min(_FEW_BUCKETS, context.buckets)
    return [
        _ours(context, "graph-pursuit", "matching pursuit"),
        _ours(context, "graph", "closed form", "pinv", closed),
        _ours(context, "graph", f"closed form, c = {few}", f"pinv-{few}", merged(closed, {"method": {"c": few}})),
        _ours(context, "graph", "refitted"),
    ]


def ablation(context: StudyContext) -> list[Cell]:
    """Return LEGCF without update or with each solver, anchors by METIS or at random, for equally many epochs."""
    solvers = {"on": ("pinv", "closed form"), "refit": ("pinv-refit", "refitted"), "pursuit": ("matching-pursuit",) * 2}
    starts = {"metis": "METIS", "random": "random"}
    # Without an update there is one stage, which gets the epochs of both.
    epochs = {"training": {"epochs": 2 * QUICK_EPOCHS}} if context.effort == "quick" else {}
    cells = []
    for start, named in starts.items():
        begun = {"method": {"start": start}} if start != "metis" else {}
        off = merged(begun, {"method": {"update": "none"}})
        cells.append(_legcf(context, f"off-{start}", f"{named}, no update", off, group=named, effort=epochs))
        for name, (solver, words) in solvers.items():
            updated = merged(begun, {"method": {"update": solver}})
            cells.append(_legcf(context, f"{name}-{start}", f"{named}, update: {words.replace('-', ' ')}", updated,
                                group=named))  # fmt: skip
    return cells


def hyperparameters(context: StudyContext) -> list[Cell]:
    """Return sweeps over t, m, w* and c around the paper's context (Figure 4), with refitted weights."""
    sweeps: dict[str, tuple[str, tuple[float, ...]]] = {
        "t": ("t", (1, 2, 3, 4, 5)),
        "m": ("update_every", (1, 2, 3, 5, 10)),
        "w": ("anchor_weight", (0.5, 0.6, 0.7, 0.8, 0.9)),
        "c": ("c", tuple(c for c in (100, 500, 1000, 5000, 10000) if c * 4 <= context.num_entities)),
    }
    cells = []
    for name, (option, values) in sweeps.items():
        for value in values:
            about = merged(_REFIT, {"method": {option: value}})
            large = name == "c" and value > _LARGE_CODEBOOK
            effort = {"training": {"propagation": "stepwise", **_stepwise(context)}} if large else {}
            cells.append(_legcf(context, f"{name}={value:g}", f"{name} = {value:g}", about, group=name, effort=effort))
    return cells


def backbones(context: StudyContext) -> list[Cell]:
    """Return LEGCF and full tables, wide and of similar size, on three base recommenders (Table 4).

    Full tables are trained as those of Table 2 are: with the same loss, until they converge or their time is up."""
    return [cell for base in _BASES for cell in (_legcf_on(context, base), *_tables_on(context, base))]


def searched(context: StudyContext) -> dict[str, Cell]:
    """Return rows whose learning rate is searched for, by the name that the rate has in rates.json. On a base
    recommender the full table of 64 stands for all widths."""
    rivals = {cell.name: cell for cell in table2(context) if cell.method != "legcf"}
    for base in _BASES:
        if base != _LIGHTGCN:
            rivals[f"{base}-legcf"] = _legcf_on(context, base)
            (rivals[f"{base}-ud"],) = (cell for cell in _tables_on(context, base) if cell.name == f"{base}-ud-64")
    return rivals


def rate_at(rate: float, batch_size: int) -> float:
    """Convert a rate of rates.json to batches of another size: rates go with the root of the batch."""
    return float(f"{rate * (batch_size / _RATES['batch_size']) ** 0.5:.2g}")


def figures(context: StudyContext) -> list[Cell]:
    """Return the runs that the case studies look at: before training, after pretraining, after the last update."""
    return [
        _legcf(context, "at-start", "initialisation", {"training": {"epochs": 0}}),
        _legcf(context, "pretrained", "after pretraining", {"method": {"update": "none"}}),
        _legcf(context, "at-end", "after the updates", merged(_REFIT, {"training": {"keep": "last"}})),
    ]


def by_bytes(context: StudyContext) -> list[Cell]:
    """Return every method as its `default` preset (`paper` in full), compact ones within LEGCF's values, beside model
    files of several sizes: what they rank by counts in bytes here."""
    cells = []
    for method, known in _methods():
        if method == "legcf":
            continue
        rows = list((_comparison_rows(method) or {}).values())
        compact = "budget" in known.layer.Config.model_fields and method not in _UNCOMPRESSED
        within = compact and all(row.within_budget for row in rows)
        about = {"method": {"budget": context.budget}} if within else {}
        quick = context.effort == "quick"
        time = {"max_minutes": RIVAL_MINUTES if quick else None, "clock": "cpu" if quick else "wall"}
        settings = merged({"training": time}, _limits(context, layers=False), context.overrides, about)
        cells.append(Cell(f"{method}-own", method, method, ("default" if quick else "paper",), settings, group=method))
    for size in (size for size in _FILES if size >= _LEAST_BYTES_AN_ITEM * context.num_items):
        label, about = f"LEGCF (our default), {size / 1e6:g} MB", {"ranking": {"bytes": size}}
        cells.append(_ours(context, "default", label, f"default-{size}", about))
    return [*cells, _ours(context, "fast", "LEGCF (fast)"), *table2(context)[-3:]]


STUDIES: dict[str, Study] = {
    "table2": Study("Table 2: accuracy and size of all methods", "table", table2),
    "converged": Study("LEGCF to its end, with each update", "table", converged),
    "ablation": Study("Ablation: assignment update and initialisation", "table", ablation),
    "hyperparameters": Study("Hyperparameters: t, m, w* and c", "sweep", hyperparameters),
    "backbones": Study("Base recommenders", "table", backbones),
    "bytes": Study("By bytes: every method beside model files of several sizes", "table", by_bytes),
    "figures": Study("Case studies: embeddings and assignment weights", "case study", figures),
}
_UNCOMPRESSED = ("full", "als", "chebycf", "bspm")
_FILES = (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
_LEAST_BYTES_AN_ITEM = 12  # a smaller file does not hold the items
EFFORTS = ("quick", "full")


def chosen_studies(name: str) -> list[str]:
    if name == "all":
        return list(STUDIES)
    if name not in STUDIES:
        raise UserError(f"There is no study `{name}` to reproduce: choose one of {', '.join(STUDIES)}, or all.")
    return [name]


def _legcf(
    context: StudyContext,
    name: str,
    label: str,
    about: Mapping[str, Any] | None = None,
    backbone: str | None = None,
    group: str = "",
    effort: Mapping[str, Any] | None = None,
) -> Cell:
    """Return LEGCF as the text has it; other settings are named by what differs.

    The user's settings go before those of the `effort`. They leave what a row is `about`, which its name says.
    """
    base: dict[str, Any] = {"training": _quick_basis(context)}
    if context.buckets != _USUAL_BUCKETS:
        base["method"] = {"c": context.buckets}
    settings = merged(base, _limits(context), effort or {}, context.overrides, about or {})
    return Cell(name, label, "legcf", ("paper",), settings, backbone, group, keep_state=True)


def _quick_basis(context: StudyContext) -> dict[str, Any]:
    """Return settings for about a hundred steps per epoch, and a rate that falls with the root of the batch."""
    if context.effort != "quick":
        return {}
    batch = _batch(context)
    return {
        "batch_size": batch, "negative_pool": _pool(batch), "learning_rate": _rate(batch),
        "epochs": QUICK_EPOCHS, "patience": _NO_PATIENCE,
        **_WATCHED,
    }  # fmt: skip


def _released(context: StudyContext) -> dict[str, Any]:
    """Return larger batches for the release's settings, at a rate that goes with them: so its codebook travels as far
    in an epoch, and LastFM's result is kept (docs/paper-checked.md)."""
    if context.effort != "quick":
        return {}
    made_for = METHODS["legcf"].layer.presets["official"]["training"]
    times = max(1, round(2 * _batch(context) / made_for["batch_size"]))
    larger = {name: times * made_for[name] for name in ("batch_size", "learning_rate")}
    return {"training": {**larger, "validation_users": _RELEASED_VALIDATION_USERS}}


def _pool(batch: int) -> int:
    return max(_SMALLEST_POOL, batch // _PAIRS_A_NEGATIVE)


def _rate(batch: int) -> float:
    return float(f"{_RATE_OF_LARGEST * (batch / _LARGEST_BATCH) ** 0.5:.2g}")


def _batch(context: StudyContext) -> int:
    """Return the power of two that is next to a hundredth of the pairs."""
    if context.num_pairs is None:
        return _LARGEST_BATCH
    nearest = 1 << round(math.log2(max(context.num_pairs / _STEPS_PER_EPOCH, 1)))
    return max(_SMALLEST_BATCH, min(_LARGEST_BATCH, nearest))


def _ours(
    context: StudyContext, preset: str, label: str, name: str | None = None, about: Mapping[str, Any] | None = None
) -> Cell:
    """Return a preset as it is, but for data that are much smaller than those it was made for."""
    made_for = METHODS["legcf"].layer.presets[preset]
    changed: dict[str, Any] = {}
    if context.buckets != _USUAL_BUCKETS:
        changed["method"] = {"c": context.buckets} if "c" in made_for["method"] else {"budget": context.budget}
    batch = _batch(context)
    if batch < made_for["training"].get("batch_size", 0) == _LARGEST_BATCH:
        changed["training"] = {"batch_size": batch, "learning_rate": _rate(batch), "negative_pool": _pool(batch)}
    settings = merged(changed, _limits(context, layers=False), context.overrides, about or {})
    return Cell(name or preset, label, "legcf", (preset,), settings, group="LEGCF")


def _with_effort(context: StudyContext, cell: Cell, effort: Mapping[str, Any]) -> Cell:
    """Return a cell with its method's quick preset where it has one, else with the settings made for two cores."""
    presets = ("quick", "default") if context.effort == "quick" else ("paper", "default")
    changed: dict[str, Any] = {}
    if context.effort == "quick" and _batch(context) < _LARGEST_BATCH:
        changed["batch_size"] = _batch(context)
    plain = replace(cell, presets=presets, overrides={})
    if plain.config(0).training.max_minutes is not None:
        changed["max_minutes"] = None
    settings = merged({"training": changed}, _limits(context), effort, context.overrides, cell.overrides)
    return replace(plain, overrides=settings)


def _rivals(context: StudyContext) -> Iterator[Cell]:
    """Yield everything that LEGCF is compared with."""
    for method, _ in _methods():
        rows = _comparison_rows(method)
        if method == "legcf" or rows is None:
            continue
        for name, row in (rows or {method: ComparisonRow(method)}).items():
            within = {"method": {"budget": context.budget}} if row.within_budget else {}
            about = merged(row.overrides, within, row.fitted)
            cell = Cell(name, row.label, method, (), about, None, row.group, reference=row.reference)
            yield _with_effort(context, cell, _one_loss(context, name))


def _comparison_rows(method: str) -> Mapping[str, ComparisonRow] | None:
    if method in _ROWS_OF_LEGCF:
        return _ROWS_OF_LEGCF[method]
    rows: Mapping[str, ComparisonRow] | None = getattr(METHODS[method].layer, "comparison_rows", {})
    return rows


def _methods() -> Iterator[tuple[str, Method]]:
    """Yield the methods in the paper's order, those of other packages at the end."""
    for method in dict.fromkeys((*_ORDER, *METHODS)):
        yield method, METHODS[method]


def _one_loss(context: StudyContext, name: str) -> dict[str, Any]:
    """Return settings for the paper's loss. Quick runs have the rate that was best on small data, for larger batches
    raised by their root, and end when they converge or their time is up."""
    training: dict[str, Any] = {
        "loss": "bpr", "temperature": 1.0, "negatives": 5, "negative_weight": 1.0, "user_power": 0.0,
    }  # fmt: skip
    if context.effort == "quick":
        # Most rivals propagate the whole table at every step: on large data twice as many pairs share it, as in rows of
        # LEGCF that do so too.
        batch = _batch(context) if _batch(context) < _LARGEST_BATCH else 2 * _LARGEST_BATCH
        training |= {
            "batch_size": batch, "negative_pool": _pool(batch), "schedule": "constant", **_WATCHED,
            "epochs": _RIVAL_EPOCHS, "patience": _RIVAL_PATIENCE,
            "max_minutes": context.minutes or RIVAL_MINUTES, "clock": "cpu",
        }  # fmt: skip
        training |= _searched_rate(context, name, batch)
    return {"training": training, "ranking": {"norm_power": 1.0}}


def _searched_rate(context: StudyContext, name: str, batch: int) -> dict[str, float]:
    """Return the rate, and L2 where it helped, of the data that is nearest in size and has the row; nothing where
    none was searched for."""
    pairs = context.num_pairs or _MANY_PAIRS
    for one in sorted(_RATES["found"].values(), key=lambda one: abs(math.log(pairs / one["pairs"]))):
        if name in one["rates"]:
            l2 = {"l2": one["l2"][name]} if name in one["l2"] else {}
            return {"learning_rate": rate_at(one["rates"][name], batch)} | l2
    return {}


def _legcf_on(context: StudyContext, base: str) -> Cell:
    """Return LEGCF on a base recommender: only LightGCN trains on the basis, quickly enough for small batches."""
    label, settings = _BASES[base]
    if base == _LIGHTGCN:
        return _legcf(context, f"{base}-legcf", f"{label}, LEGCF", _REFIT, group=label)
    training = _stepwise(context)
    if training:
        training |= _searched_rate(context, f"{base}-legcf", training["batch_size"])
    about = merged(_REFIT, {"backbone": settings})
    return _legcf(context, f"{base}-legcf", f"{label}, LEGCF", about, base, label, {"training": training})


def _tables_on(context: StudyContext, base: str) -> list[Cell]:
    """Return full tables: of LEGCF's size, then wide ones."""
    label, settings = _BASES[base]
    similar = context.width_within_budget
    cells = []
    for width in dict.fromkeys((similar, 64, 128)):
        name = f"{base}-ud" if width == similar else f"{base}-ud-{width}"
        loss = _one_loss(context, f"ud-{max(width, 64)}" if base == _LIGHTGCN else f"{base}-ud")
        about = {"method": {"dim": width}, "backbone": settings}
        cell = Cell(
            name, f"{label}, UD, {width} wide", "full", (), about, None if base == _LIGHTGCN else base, label,
            reference=width != similar,
        )  # fmt: skip
        cells.append(_with_effort(context, cell, loss))
    return cells


def _stepwise(context: StudyContext) -> dict[str, Any]:
    if context.effort != "quick":
        return {}
    return {**_QUICK_STEPWISE, "batch_size": min(2 * _batch(context), _QUICK_STEPWISE["batch_size"])}


def _limits(context: StudyContext, layers: bool = True) -> dict[str, Any]:
    """Return the time a run may take, if the user says so, and the paper's depth where it is not the default."""
    limits: dict[str, Any] = {"training": {}}
    if context.minutes is not None:
        limits["training"] |= {"max_minutes": context.minutes, "clock": "cpu"}
    if layers and context.layers != 3:
        limits["backbone"] = {"layers": context.layers}
    return limits
