# SPDX-License-Identifier: Apache-2.0
"""Compare runs side by side: metrics of each, and how each differs from the first by paired tests over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from legcf.core.errors import UserError
from legcf.evaluation.evaluate import DEFAULT_KS, evaluate_per_user
from legcf.experiments.cross_validation import FOLDS_FILE, CrossValidation
from legcf.experiments.sheet import Sheet, SheetCell, Value
from legcf.recommender import Recommender

_FACTS = ("method", "backbone", "preset", "seed", "num_params", "storage_bytes")


def compare(folders: Sequence[Path], ks: Sequence[int] = (10, 20)) -> dict[str, Any]:
    """Return every metric of every run on the test part; all must be of the same split of the same data.

    Of settings that were measured on folds, a metric is the mean over them.
    """
    if len(folders) < 2:
        raise UserError("One run cannot be compared with itself; name at least two.")
    if min(ks) < 1:
        raise UserError(f"-k {min(ks)} is not possible; list lengths start at 1.")
    are_folds = any((folder / FOLDS_FILE).exists() for folder in folders)
    about, results = (_measured_on_folds if are_folds else _measured)(folders, ks)
    first = results[0]
    shown = [name for name in first.metrics if int(name.partition("@")[2]) in ks]
    if not shown:
        raise UserError(f"Folds are measured at {', '.join(map(str, DEFAULT_KS))}: choose -k among them.")
    runs: list[dict[str, Any]] = []
    for folder, result in zip(folders, results, strict=True):
        metrics = result.metrics
        measured = {name: metrics[name] for name in shown}
        run = {"run": str(folder), **{key: result.facts.get(key) for key in _FACTS}}
        run["metrics"] = {name: one.mean for name, one in measured.items()}
        if are_folds:
            run["deviation"] = {name: one.spread for name, one in measured.items()}
        tests = {} if result is first else result.against(first)
        run["against_first"] = {name: asdict(test) for name, test in tests.items() if name in shown} or None
        runs.append(run)
    return {**about, "users": len(next(iter(first.per_user.values()))), "runs": runs}


def _measured(folders: Sequence[Path], ks: Sequence[int]) -> tuple[dict[str, Any], list[CrossValidation]]:
    """Return what runs are compared on, and their metrics as of a single fold."""
    models = [Recommender.load(folder) for folder in folders]
    for folder, model in zip(folders, models, strict=True):
        if "final" in model.metrics:
            raise UserError(f"{folder} was trained on every pair, so none is left to compare by; use {folder}/chosen.")
        if model.metrics.get("content_hash") != models[0].metrics.get("content_hash"):
            raise UserError(f"{folder} and {folders[0]} are of different data or splits, so their users do not pair.")
    dataset, results = models[0].dataset(), []
    for model in models:
        per_user = evaluate_per_user(model.ranking, dataset.test, ks)[0]
        means = {name: float(values.mean()) for name, values in per_user.items()}
        results.append(CrossValidation(model.metrics, dataset.content_hash, [means], per_user))
    return {"dataset": dataset.name, "protocol": dataset.protocol}, results


def _measured_on_folds(folders: Sequence[Path], ks: Sequence[int]) -> tuple[dict[str, Any], list[CrossValidation]]:
    for folder in folders:
        if not (folder / FOLDS_FILE).exists():
            raise UserError(f"{folder} was not measured on folds as others were: train it with --folds, too.")
    results = [CrossValidation.load(folder) for folder in folders]
    return {"dataset": results[0].facts["dataset"], "protocol": f"{results[0].facts['folds']} folds"}, results


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
