"""The paper's tables and figures as cells. A new study is a function and one line in STUDIES."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from legcf.embeddings.base import Row
from legcf.errors import UserError
from legcf.experiments.cells import Cell, Setting, with_overrides
from legcf.registry import METHODS

QUICK_MINUTES = 10.0
"""Sixteen rows side by side on two cores then stay below two hours."""

# Every step propagates over the whole graph, so few large batches and the grid's highest rate.
_QUICK_STEPWISE = {
    "batch_size": 16384, "learning_rate": 1e-2, "patience": 5, "validation_users": 5000, "checkpoint_seconds": 60,
}  # fmt: skip
# On the propagated basis an epoch takes seconds; both stages must get their share of the time.
_QUICK_BASIS = {
    "batch_size": 8192, "learning_rate": 1e-2, "epochs": 12, "patience": 3, "validation_users": 5000,
}  # fmt: skip
_LARGE_CODEBOOK = 1000  # above it the basis is larger than the table it stands for, so steps propagate


@dataclass(frozen=True)
class Study:
    """`title` and `cells` of a table or figure; `kind` says how the report shows it."""

    title: str
    kind: str
    cells: Callable[[Setting], list[Cell]]


def table2(setting: Setting) -> list[Cell]:
    """All methods at (or near) LEGCF's size, beside the full table."""
    within = {"method": {"budget": setting.budget}}
    return [
        *(
            _cell(
                setting, name, row.label, method, with_overrides(row.overrides, within if row.within_budget else {}),
                group=row.group, reference=row.reference,
            )
            for method, known in METHODS.items() if method != "legcf" and known.layer.table_rows is not None
            for name, row in (known.layer.table_rows or {method: Row(method)}).items()
        ),
        _legcf(setting, "legcf", "LEGCF (paper)", group="LEGCF"),
        _ours(setting, "items-only", "LEGCF (ours, items only)"),
        _ours(setting, "default", "LEGCF (our default)"),
    ]  # fmt: skip


def ablation(setting: Setting) -> list[Cell]:
    """Assignment update on or off, anchors by METIS or at random; and what the paper did not ask."""
    off, random = {"method": {"update": "none"}}, {"method": {"start": "random"}}
    return [
        _legcf(setting, "on-metis", "update on, METIS", group="the paper's"),
        _legcf(setting, "off-metis", "update off, METIS", off, group="the paper's"),
        _legcf(setting, "on-random", "update on, random", random, group="the paper's"),
        _legcf(setting, "off-random", "update off, random", with_overrides(off, random), group="further"),
        _legcf(
            setting, "pursuit-metis", "update by matching pursuit, METIS", {"method": {"update": "matching-pursuit"}},
            group="further",
        ),
        _last(setting, group="further"),
    ]  # fmt: skip


def hyperparameters(setting: Setting) -> list[Cell]:
    """Sweeps over t, m, w* and c around the paper's setting (Figure 4)."""
    sweeps: dict[str, tuple[str, tuple[float, ...]]] = {
        "t": ("t", (1, 2, 3, 4, 5)),
        "m": ("update_every", (1, 2, 3, 5, 10)),
        "w": ("anchor_weight", (0.5, 0.6, 0.7, 0.8, 0.9)),
        "c": ("c", tuple(c for c in (100, 500, 1000, 5000, 10000) if c * 4 <= setting.num_entities)),
    }
    cells = []
    for name, (option, values) in sweeps.items():
        for value in values:
            overrides: dict[str, Any] = {"method": {option: value}}
            if name == "c" and value > _LARGE_CODEBOOK:
                overrides["training"] = {"propagation": "stepwise", **_quick(setting, _QUICK_STEPWISE)}
            cells.append(_legcf(setting, f"{name}={value:g}", f"{name} = {value:g}", overrides, group=name))
    return cells


def backbones(setting: Setting) -> list[Cell]:
    """LEGCF and full tables, wide and of similar size, on three base recommenders (Table 4)."""
    widths = (setting.width_within_budget, 64, 128)
    cells = []
    for backbone, label in (("lightgcn", "LightGCN"), ("ngcf", "NGCF"), ("lr-gccf", "LR-GCCF")):
        # Only LightGCN with a small codebook trains on the basis quickly enough for small batches.
        stepwise = {} if backbone == "lightgcn" else {"training": _quick(setting, _QUICK_STEPWISE)}
        base = None if backbone == "lightgcn" else backbone
        cells += [
            _legcf(setting, f"{backbone}-legcf", f"{label}, LEGCF", stepwise, base, label),
            *(
                _cell(
                    setting, f"{backbone}-ud" if width == widths[0] else f"{backbone}-ud-{width}",
                    f"{label}, UD, {width} wide", "full", {"method": {"dim": width}}, base, label,
                    reference=width != widths[0],
                )
                for width in dict.fromkeys(widths)
            ),
        ]  # fmt: skip
    return cells


def figures(setting: Setting) -> list[Cell]:
    """The states that the case studies look at: before training, after pretraining, and after the last update."""
    return [
        _legcf(setting, "at-start", "initialisation", {"training": {"epochs": 0}}),
        _legcf(setting, "pretrained", "after pretraining", {"method": {"update": "none"}}),
        _last(setting, "at-end", "after the updates"),
    ]


STUDIES: dict[str, Study] = {
    "table2": Study("Table 2: accuracy and size of all methods", "table", table2),
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
    base: dict[str, Any] = {"training": _quick(setting, _QUICK_BASIS)}
    if setting.buckets != 500:
        base["method"] = {"c": setting.buckets}
    merged = with_overrides(base, _limits(setting), setting.overrides, overrides or {})
    return Cell(name, label, "legcf", ("paper",), merged, backbone, group, keep_state=True)


def _last(setting: Setting, name: str = "last-metis", label: str = "update on, METIS: last epoch", **more: Any) -> Cell:
    """Without going back to the best epoch: what the updates lead to, even where validation prefers an earlier one."""
    return _legcf(setting, name, label, {"training": {"keep": "last"}}, **more)


def _ours(setting: Setting, preset: str, label: str) -> Cell:
    overrides = with_overrides(_limits(setting, layers=False), setting.overrides)
    if setting.buckets != 500:
        overrides = with_overrides({"method": {"budget": setting.budget}}, overrides)
    return Cell(preset, label, "legcf", (preset,), overrides, group="LEGCF")


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
    merged = with_overrides(_limits(setting), setting.overrides, overrides or {})
    return Cell(name, label, method, presets, merged, backbone, group, reference=reference)


def _quick(setting: Setting, training: Mapping[str, Any]) -> dict[str, Any]:
    return dict(training) if setting.preset == "quick" else {}


def _limits(setting: Setting, layers: bool = True) -> dict[str, Any]:
    """The time a run may take, and the paper's depth where it is not the default."""
    minutes = setting.minutes or (QUICK_MINUTES if setting.preset == "quick" else None)
    limits: dict[str, Any] = {"training": {}} if minutes is None else {"training": {"max_minutes": minutes}}
    if layers and setting.layers != 3:
        limits["backbone"] = {"layers": setting.layers}
    return limits
