# SPDX-License-Identifier: Apache-2.0
"""Say how a training goes and how it went: the command line and Python say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from legcf.core.notebook_repr import print_pairs
from legcf.data.interactions import Dataset
from legcf.embeddings.baselines.compare import METRIC, baselines, comparison
from legcf.scoring.run_files import method_title, summary
from legcf.training.run_folder import TrainedModel


def epoch_lines(write: Callable[[str], object]) -> Callable[[dict[str, Any]], None]:
    """Return what writes a line for an epoch, and of the many trials of a selection for those ahead of all before."""

    def listener(line: dict[str, Any]) -> None:
        ahead = line.get("ahead")
        if ahead is None or ahead > 0:
            write("  ".join(part for part in _parts(line) if part))

    return listener


def _parts(line: dict[str, Any]) -> Iterator[str]:
    yield f"{line['stage']:>10} {line['epoch']:3d}"
    tried = dict(line.get("search", {}))
    yield str(tried.pop("start", ""))
    yield f"loss {line['loss']:.4f}" if line["loss"] is not None else "start      " if line["epoch"] == 0 else ""
    validation = line.get("validation", {})
    yield from (f"{name} {validation[name]:.4f}" for name in ("recall@20", "ndcg@20") if name in validation)
    if line.get("ahead") is not None:
        yield f"{line['ahead']:.1%} ahead"
    if "update" in line:
        yield f"S error {line['update']['relative_error']:.3f}"
    for name, value in tried.items():
        yield f"{name.replace('_', ' ')} {f'{value:.4g}' if isinstance(value, float) else value}"
    yield f"{line['seconds']:.1f} s"
    if "seconds_left" in line:
        yield f"about {max(line['seconds_left'], 0):.0f} s left"


def print_outcome(trained: TrainedModel, dataset: Dataset, asked: str, compare: bool | None = None) -> None:
    """Print accuracy, size and time of a model that was trained by the method `asked` for, and compare it.

    It is compared with the simplest rankings if asked to; None: where that takes seconds, and time was not limited.
    """
    title = method_title(asked, trained.config.method.name)
    print_pairs(f"{title} on {dataset.name}, protocol {dataset.protocol}", summary(trained.metrics))
    test = trained.metrics["test"]
    if not test:
        print(f"Accuracy is not measured: {dataset.name} has too few pairs to leave any out for testing.")
    limited = "within" in trained.metrics
    others = {}
    if METRIC in test and compare is not False and (compare or not limited):
        others = baselines(dataset, anyway=compare is True)
        others.pop(trained.config.method.name, None)
    if others:
        print(comparison(test[METRIC], others))
    if (found := trained.metrics.get("user_features")) is not None:
        end = "features decide" if found["used"] else "they are shown what is popular"
        shares = f"{found['recall']:.4f} by features, {found['popularity']:.4f} by popularity"
        print(f"Users without items: recall {shares}, so {end}.")
