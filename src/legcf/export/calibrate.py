# SPDX-License-Identifier: Apache-2.0
"""Choose how users are folded in, at export: by validation pairs if there are any, else by hidden training pairs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.progress import progress
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.popularity import at_least_one
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import measure
from legcf.scoring.foldin import FoldInSolver

_SAMPLE = 400  # users that a setting is scored on; other numbers were not measured
_MOST_PAIRS = 200  # items of a history, so that a user with thousands does not hold up the rest
_HIDDEN = 0.2  # share of the training pairs that is hidden where there are no validation pairs; not measured
_START = FoldIn(unobserved=0.1, ridge=0.1, damping=0.0)
# With a ridge that outweighs everything the solution is the damped sum of the history: what the `history` backbone and
# one step of propagation give a user.
_SUM = {"unobserved": 0.01, "ridge": 100.0, "damping": 0.5}
# From the better of the two, one setting after the other: they hardly depend on each other. Other values were not
# measured.
_STEPS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("unobserved", (0.01, 1.0)),
    ("ridge", (1e-3, 10.0)),
    ("damping", (0.0, 0.25, 0.5)),
)


def calibrated(
    model: ServedModel, served: Ranking, truth: Interactions | None, rng: np.random.Generator, quiet: bool = True
) -> ServedModel:
    """Return the model with the settings that give the best NDCG@20 on users folded in from their history.

    `served` has the vectors of both sides as the file gives them back, and the training pairs as histories. Vectors of
    known users only set the scale, which matters beside a bias and beside what item lists add. Without `truth`, a fifth
    of the training pairs is hidden and found again.
    """
    item_rows = model.item_rows
    if truth is None or not truth.num_pairs:
        train = served.histories
        hidden: NDArray[np.bool_] = rng.random(train.num_pairs) < _HIDDEN
        truth = train.subset(hidden)
        served = replace(served, histories=train.subset(~hidden), lists=None)  # lists know the hidden pairs
    seen, counts = served.histories, at_least_one(served.popularity)
    able = np.flatnonzero((seen.user_degrees > 0) & (truth.user_degrees > 0))
    users = np.sort(rng.choice(able, min(_SAMPLE, len(able)), replace=False))
    if not len(users):
        return replace(model, fold_in=_START)
    histories = _histories(seen, users)
    gram, _ = measure(item_rows)

    def score_of(settings: FoldIn) -> tuple[float, FoldIn]:
        solved = FoldInSolver(item_rows, counts, replace(settings, scale=1.0), gram).vectors(histories)
        square = float((solved.astype(np.float64) ** 2).sum())
        factor = float((solved.astype(np.float64) * served.users[users]).sum()) / square if square > 0 else 1.0
        scale = factor if 1e-12 < factor < 1e12 else 1.0  # it brings solved vectors nearest to those of the users
        vectors = np.zeros_like(served.users)
        vectors[users] = scale * solved
        score = evaluate(replace(served, users=vectors), truth, (20,), users, ("ndcg",))["ndcg@20"]
        return score, replace(settings, scale=scale)

    return replace(model, fold_in=_search(score_of, quiet))


def _search(score_of: Callable[[FoldIn], tuple[float, FoldIn]], quiet: bool) -> FoldIn:
    """Return the best settings found, with the scale that `score_of` gives each."""
    trials = [_SUM, *({name: value} for name, values in _STEPS for value in values)]
    with progress("Choosing how to fold in", len(trials), "settings", quiet) as task:
        best_score, best = score_of(_START)
        for trial in trials:
            settings = replace(best, **trial)
            if settings == best:
                continue
            score, settings = score_of(settings)
            if score > best_score:
                best_score, best = score, settings
            task.advance()
    return best


def _histories(pairs: Interactions, rows: NDArray[np.integer]) -> Interactions:
    """Return the last pairs of these rows."""
    some = pairs.of_users(rows)
    from_end = np.repeat(some.indptr[1:], some.user_degrees) - np.arange(some.num_pairs)
    return some.subset(from_end <= _MOST_PAIRS)
