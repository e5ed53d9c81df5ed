# SPDX-License-Identifier: Apache-2.0
"""How to fold in, chosen from the data at export: by validation pairs if there are any, else by hidden history."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.progress import progress
from legcf.data.interactions import Interactions
from legcf.evaluation import evaluate
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.popularity import at_least_one
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import EmbeddingTable, measure
from legcf.scoring.foldin import FoldInSolver

_SAMPLE = 400  # users a setting is judged on
_MOST_PAIRS = 200  # of a history, so that one entity with thousands does not hold up the rest
_START = FoldIn(unobserved=0.1, ridge=0.1, damping=0.0)
# With a ridge that outweighs everything the solution is the damped sum of the history: what the `history` backbone and
# one step of propagation give a user.
_SUM = FoldIn(unobserved=0.01, ridge=100.0, damping=0.5)
# From the better of the two one setting after the other: they hardly depend on each other.
_STEPS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("unobserved", (0.01, 1.0)),
    ("ridge", (1e-3, 10.0)),
    ("damping", (0.0, 0.25, 0.5)),
)


def calibrated(
    model: ServedModel, served: Ranking, validation: Interactions | None, rng: np.random.Generator, quiet: bool = True
) -> ServedModel:
    """Return the model with the settings by which it folds in users, and items where it has vectors of users.

    `served` has the vectors of both sides as the file gives them back, and the training pairs as histories.
    """
    fold_in = calibrate_users(model.item_rows, served, validation, rng, quiet)
    item = FoldIn() if model.user_rows is None else calibrate_items(model.user_rows, served, rng)
    return replace(model, fold_in=fold_in, fold_in_item=item)


def calibrate_users(
    item_rows: EmbeddingTable, served: Ranking, truth: Interactions | None, rng: np.random.Generator, quiet: bool = True
) -> FoldIn:
    """Return the setting with the best NDCG@20 on users folded in from their history.

    Vectors of known users only set the scale, which matters beside a bias and beside what item lists add.
    """
    if truth is None or not truth.num_pairs:
        seen, truth = _hide(served.histories, rng)
        served = replace(served, histories=seen, term=None)  # which knows the hidden pairs
    seen, counts = served.histories, at_least_one(served.popularity)
    able = np.flatnonzero((seen.user_degrees > 0) & (truth.user_degrees > 0))
    users = np.sort(rng.choice(able, min(_SAMPLE, len(able)), replace=False))
    if not len(users):
        return _START
    histories = _histories(seen, users)
    gram, _ = measure(item_rows)

    def judge(settings: FoldIn) -> tuple[float, FoldIn]:
        solved = FoldInSolver(item_rows, counts, replace(settings, scale=1.0), gram).vectors(histories)
        scale = _scale(solved, served.users[users])
        vectors = np.zeros_like(served.users)
        vectors[users] = scale * solved
        score = evaluate(replace(served, users=vectors), truth, (20,), users, ("ndcg",))["ndcg@20"]
        return score, replace(settings, scale=scale)

    return _search(judge, ("unobserved", "ridge", "damping"), quiet)


def calibrate_items(user_rows: EmbeddingTable, served: Ranking, rng: np.random.Generator) -> FoldIn:
    """The setting whose item vectors, solved from their users, point most nearly where the known ones point."""
    holders = served.histories.transposed()
    able = np.flatnonzero(holders.user_degrees > 1)
    items = rng.choice(able, min(_SAMPLE // 2, len(able)), replace=False)
    if not len(items):
        return _START
    wanted = served.items[items]
    ones = np.ones(len(user_rows), dtype=np.float32)
    histories = _histories(holders, items)
    gram, _ = measure(user_rows)

    def judge(settings: FoldIn) -> tuple[float, FoldIn]:
        solved = FoldInSolver(user_rows, ones, replace(settings, scale=1.0), gram).vectors(histories)
        lengths = np.linalg.norm(solved, axis=1) * np.linalg.norm(wanted, axis=1)
        score = float((np.einsum("ij,ij->i", solved, wanted) / np.maximum(lengths, 1e-12)).mean())
        return score, replace(settings, scale=_scale(solved, wanted))

    return _search(judge, ("unobserved", "ridge"), quiet=True)


def _search(judge: Callable[[FoldIn], tuple[float, FoldIn]], names: tuple[str, ...], quiet: bool) -> FoldIn:
    trials: list[FoldIn | tuple[str, float]] = [_SUM if "damping" in names else replace(_SUM, damping=0.0)]
    trials += [(name, value) for name, values in _STEPS for value in values if name in names]
    with progress("Choosing how to fold in", len(trials), "settings", quiet) as task:
        best_score, best = judge(_START)
        for trial in trials:
            settings = trial if isinstance(trial, FoldIn) else replace(best, **{trial[0]: trial[1]})
            if settings == replace(best, scale=settings.scale):
                continue
            score, settings = judge(settings)
            if score > best_score:
                best_score, best = score, settings
            task.advance()
    return best


def _histories(pairs: Interactions, rows: NDArray[np.integer]) -> Interactions:
    """The last pairs of these rows."""
    chosen = pairs.of_users(rows)
    behind = np.repeat(chosen.indptr[1:], chosen.user_degrees) - np.arange(chosen.num_pairs)
    return chosen.subset(behind <= _MOST_PAIRS)


def _scale(solved: FloatArray, known: FloatArray) -> float:
    """The factor that brings solved vectors nearest to known ones."""
    square = float((solved.astype(np.float64) ** 2).sum())
    factor = float((solved.astype(np.float64) * known).sum()) / square if square > 0 else 1.0
    return factor if 1e-12 < factor < 1e12 else 1.0


def _hide(train: Interactions, rng: np.random.Generator) -> tuple[Interactions, Interactions]:
    """A fifth of the pairs taken out to be found again."""
    hidden: NDArray[np.bool_] = rng.random(train.num_pairs) < 0.2
    return train.subset(~hidden), train.subset(hidden)
