# SPDX-License-Identifier: Apache-2.0
"""Measure settings on folds: every pair is tested on once, so that a mean has a deviation, and two settings a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core import notebook_repr
from legcf.core.arguments import as_count
from legcf.core.arrays import NPY_ERRORS
from legcf.core.config import RunConfig, validated
from legcf.core.errors import UserError, python_arguments
from legcf.core.files import digest, folder_written_whole, read_json, write_json
from legcf.data.interactions import Dataset
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.preparing.splits import PROTOCOLS
from legcf.data.source import load_training_data
from legcf.evaluation.evaluate import DEFAULT_KS, eval_users, evaluate_per_user
from legcf.experiments.statistics import Measured, Paired, paired
from legcf.recommender import Recommender
from legcf.training.run import train
from legcf.training.session import TrainingOptions

FOLDS_FILE, _PER_USER_FILE = "folds.json", "per_user.npz"
_FACTS = ("dataset", "method", "backbone", "preset", "seed", "num_params", "storage_bytes")


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(notebook_repr.Shown):
    """Hold the test metrics of one setting on every fold.

    Attributes:
        facts: Data, method, preset, seed and sizes (those of the first fold).
        split: Names data and folds: two results pair if theirs are the same.
        folds: Metrics of each fold, by name.
        per_user: Metrics of every user, each a mean over the folds that test on the user.
    """

    facts: Mapping[str, Any]
    split: str
    folds: list[dict[str, float]]
    per_user: Mapping[str, NDArray[np.float64]]

    @property
    def metrics(self) -> dict[str, Measured]:
        """Return mean and sample deviation over the folds, by metric."""
        return {name: Measured.of([fold[name] for fold in self.folds]) for name in self.folds[0]}

    def against(self, first: CrossValidation) -> dict[str, Paired]:
        """Return how this differs from another setting on the same folds: a paired test over users, by metric.

        Returns:
            Difference, its 95 % interval and p-values, by metric.
        """
        if self.split != first.split:
            raise UserError("These are folds of different data or different splits, so their users do not pair.")
        return {name: paired(first.per_user[name], values) for name, values in self.per_user.items()}

    def _facts(self) -> notebook_repr.Facts:
        shown = {name: one for name, one in self.metrics.items() if name in ("recall@20", "ndcg@20")}
        rows = {name: f"{one.mean:.4f} ± {one.spread:.4f}" for name, one in shown.items()}
        data = f"{self.facts.get('folds')} folds of {self.facts.get('dataset')}"
        return notebook_repr.Facts("CrossValidation", {"method": str(self.facts.get("method")), "data": data, **rows})

    def to_json(self) -> dict[str, Any]:
        """Return all but the values of single users."""
        metrics = {name: asdict(measured) for name, measured in self.metrics.items()}
        return {"facts": dict(self.facts), "split": self.split, "metrics": metrics, "folds": self.folds}

    def save(self, folder: Path) -> None:
        """Write folds.json, and the values of users beside it."""
        with folder_written_whole(folder) as temporary:
            write_json(temporary / FOLDS_FILE, self.to_json())
            np.savez_compressed(temporary / _PER_USER_FILE, allow_pickle=False, **dict(self.per_user))

    @classmethod
    def load(cls, folder: Path) -> CrossValidation:
        """Read what `save` wrote."""
        content = read_json(folder / FOLDS_FILE)
        try:
            with np.load(folder / _PER_USER_FILE, allow_pickle=False) as archive:
                per_user = {name: archive[name] for name in archive.files}
            loaded = cls(content["facts"], content["split"], content["folds"], per_user)
            if not all(np.isreal(value) for fold in loaded.folds for value in fold.values()) or not loaded.metrics:
                raise ValueError("metrics are not numbers")
            return loaded
        except (*NPY_ERRORS, AttributeError) as error:
            raise UserError(f"{folder} does not hold the folds of `legcf train --folds`, or is damaged.") from error


@python_arguments
def cross_validate(
    model: Recommender, data: Any, folds: int = 5, options: DataOptions | None = None, **data_options: Any
) -> CrossValidation:
    """Train a recommender's settings on all folds but one, test on that one, and so on for every fold.

    Args:
        model: The settings; the recommender itself is neither fitted nor changed.
        data: Interactions as `Recommender.fit` takes them. All pairs are dealt to the folds, also those of a test part.
        folds: How many.
        options: How to read the data, as one record; `split_seed` draws the folds.
        **data_options: The same by name.

    Returns:
        Metrics of every fold, their means and deviations; `against` tests one result against another.

    Example:
        ```python
        fast = legcf.cross_validate(Recommender(preset="fast"), "interactions.csv", folds=3)
        knn = legcf.cross_validate(Recommender("item-knn"), "interactions.csv", folds=3)
        fast.metrics["ndcg@20"].mean, fast.against(knn)["ndcg@20"].t_test
        ```
    """
    reading = options or validated(DataOptions, data_options, "data")
    return cross_validated(
        Recommender(**model.get_params(deep=False)).config, load_training_data(data, reading), folds, reading
    )


def cross_validated(
    config: RunConfig,
    dataset: Dataset,
    folds: int,
    options: DataOptions = DEFAULTS,
    tell: Callable[[dict[str, float]], None] = lambda metrics: None,
) -> CrossValidation:
    """Do the work of `cross_validate`; `tell` is called with the metrics of each fold as it is finished."""
    if as_count(folds, "The number of folds") < 2:
        raise UserError("--folds 1 leaves nothing to train on: give at least 2.")
    if (protocol := PROTOCOLS.get(dataset.protocol)) is not None and protocol.needs_time:
        raise UserError(f"Folds are drawn at random, which protocol {dataset.protocol} is not: leave --folds out.")
    if dataset.repeats:
        raise UserError(
            "Folds deal out pairs, each once, so nobody takes anything again in them: leave `--repeat allow` or"
            " --folds out."
        )
    each: list[dict[str, float]] = []
    sums: dict[str, NDArray[np.float64]] = {}
    counts = np.zeros(dataset.num_users, dtype=np.int64)
    facts: dict[str, Any] = {}
    for part in folded(dataset, folds, options):
        trained = train(part, config, TrainingOptions(quiet=True))
        values, _, users = evaluate_per_user(trained.ranking, part.test, DEFAULT_KS, eval_users(part.test))
        counts[users] += 1
        for name, own in values.items():
            sums.setdefault(name, np.zeros(dataset.num_users))[users] += own
        each.append({name: float(own.mean()) for name, own in values.items()})
        facts = facts or {key: trained.metrics.get(key) for key in _FACTS}
        tell(each[-1])
    tested = counts > 0
    facts |= {"method": config.method.name, "backbone": config.backbone.name, "folds": folds}
    split = digest([dataset.whole().content_hash, folds, options.split_seed, options.validation_ratio])
    return CrossValidation(facts, split, each, {name: total[tested] / counts[tested] for name, total in sums.items()})


def folded(dataset: Dataset, folds: int, options: DataOptions = DEFAULTS) -> Iterator[Dataset]:
    """Yield the data once for each fold, which tests; `validation_ratio` of all pairs validate, the others train.

    The only pair of a user always trains: there would be nothing to recommend by.
    """
    rng = np.random.default_rng(options.split_seed)
    known = dataset.known
    numbers = known.fold_numbers(folds, rng)
    numbers[(known.user_degrees == 1)[known.users()]] = -1
    for fold in range(folds):
        test, rest = known.subset(numbers == fold), known.subset(numbers != fold)
        if not test.num_pairs:
            raise UserError(f"{dataset.name} has too few pairs for {folds} folds: give fewer --folds.")
        share = options.validation_ratio / (1 - 1 / folds)
        whole = replace(dataset, protocol=f"fold {fold + 1} of {folds}", train=rest, test=test)
        yield whole.holding_out(min(share, 1.0), rng)
