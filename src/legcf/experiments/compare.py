# SPDX-License-Identifier: Apache-2.0
"""Compare runs side by side: metrics of each, and how each differs from the first by paired tests over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.evaluation.evaluate import DEFAULT_KS, evaluate_per_user
from legcf.experiments.cross_validation import FOLDS_FILE, CrossValidation
from legcf.experiments.sheet import Sheet, SheetCell, Value
from legcf.experiments.statistics import paired
from legcf.recommender import Recommender

_FACTS = ("method", "backbone", "preset", "seed", "num_params", "storage_bytes")


def compare(folders: Sequence[Path], ks: Sequence[int] = (10, 20)) -> dict[str, Any]:
    """Return every metric of every run on the test part; all must be of the same split of the same data."""
    if len(folders) < 2:
        raise UserError("One run cannot be compared with itself; name at least two.")
    if min(ks) < 1:
        raise UserError(f"-k {min(ks)} is not possible; list lengths start at 1.")
    if any((folder / FOLDS_FILE).exists() for folder in folders):
        return _compare_folds(folders, ks)
    models = [Recommender.load(folder) for folder in folders]
    for folder, model in zip(folders, models, strict=True):
        if "final" in model.metrics:
            raise UserError(f"{folder} was trained on every pair, so none is left to compare by; use {folder}/chosen.")
        if model.metrics.get("content_hash") != models[0].metrics.get("content_hash"):
            raise UserError(f"{folder} and {folders[0]} are of different data or splits, so their users do not pair.")
    dataset = models[0].dataset()
    per_user = [evaluate_per_user(model.ranking, dataset.test, ks)[0] for model in models]

    def against_first(own: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, float | int]]:
        return {name: asdict(paired(per_user[0][name], values)) for name, values in own.items()}

    return {
        "dataset": dataset.name,
        "protocol": dataset.protocol,
        "users": len(next(iter(per_user[0].values()))),
        "runs": [
            {
                "run": str(folder),
                **{key: model.metrics.get(key) for key in _FACTS},
                "metrics": {name: float(values.mean()) for name, values in own.items()},
                "against_first": against_first(own) if position else None,
            }
            for position, (folder, model, own) in enumerate(zip(folders, models, per_user, strict=True))
        ],
    }


def _compare_folds(folders: Sequence[Path], ks: Sequence[int]) -> dict[str, Any]:
    """Return the same of settings that were measured on folds; a metric is then the mean over them."""
    for folder in folders:
        if not (folder / FOLDS_FILE).exists():
            raise UserError(f"{folder} was not measured on folds as others were: train it with --folds, too.")
    results = [CrossValidation.load(folder) for folder in folders]
    shown = [name for name in results[0].metrics if int(name.partition("@")[2]) in ks]
    if not shown:
        raise UserError(f"Folds are measured at {', '.join(map(str, DEFAULT_KS))}: choose -k among them.")
    first = results[0]
    return {
        "dataset": first.facts["dataset"],
        "protocol": f"{first.facts['folds']} folds",
        "users": len(next(iter(first.per_user.values()))),
        "runs": [
            {
                "run": str(folder),
                **{key: result.facts.get(key) for key in _FACTS},
                "metrics": {name: result.metrics[name].mean for name in shown},
                "deviation": {name: result.metrics[name].spread for name in shown},
                "against_first": {name: asdict(test) for name, test in result.against(first).items() if name in shown}
                if position
                else None,
            }
            for position, (folder, result) in enumerate(zip(folders, results, strict=True))
        ],
    }


def sheet_of(comparison: Mapping[str, Any]) -> Sheet:
    """Return a column for each run, with its facts and metrics, and one with p-values against the first run."""
    runs = comparison["runs"]
    rows: list[list[SheetCell]] = [[key, *(run[key] for run in runs), *(None for _ in runs[1:])] for key in _FACTS]
    for name in runs[0]["metrics"]:
        best = max(run["metrics"][name] for run in runs)
        values = [Value(mean := run["metrics"][name], run.get("deviation", {}).get(name), mean == best) for run in runs]
        rows.append([name, *values, *(run["against_first"][name]["t_test"] for run in runs[1:])])
    columns = ["", *(run["run"] for run in runs), *(f"p {run['run']}" for run in runs[1:])]
    return Sheet(f"{comparison['dataset']}, protocol {comparison['protocol']}, test", columns, rows)
