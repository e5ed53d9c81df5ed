# SPDX-License-Identifier: Apache-2.0
"""Find the smallest model that is good enough: bisection over a ladder of sizes, measured on validation."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from legcf.core.errors import UserError
from legcf.core.progress import progress
from legcf.export.accuracy import headline
from legcf.export.compress.compress import Compressed
from legcf.export.compress.model import NamedTable
from legcf.export.compress.sizes import Sizes, ladder
from legcf.ranking.ranking import Ranking

OBJECTIVE = "ndcg@20"


@dataclass(frozen=True)
class Trial:
    """Record one size that was tried: what it stores and the share of validation NDCG@20 it loses."""

    c: int
    t: int
    values: int
    loss: float


def smallest(
    named: NamedTable, tolerance: float, coder: Callable[[Sizes], Compressed], largest_c: int, quiet: bool = True
) -> tuple[Compressed, list[Trial]]:
    """Return the smallest size of the ladder whose validation NDCG@20 falls by at most `tolerance` (0.03 is 3 %).

    Bisection takes for granted that a larger model loses less, which holds up to noise; test pairs are never looked at.
    """
    if not 0 < tolerance < 1:
        raise UserError(f"--tolerance {tolerance} must lie between 0 and 1: 0.03 allows a loss of 3 %.")
    ranking = named.ranking
    if named.dataset is None or ranking is None or not named.dataset.validation.num_pairs:
        raise UserError("--tolerance needs user and item vectors and --data with validation pairs to measure by.")
    train, validation = named.dataset.train, named.dataset.validation
    before = headline(ranking, validation)[OBJECTIVE]
    if before <= 0:
        raise UserError("The table finds no validation item at all: check that its rows are in the order of the data.")
    rows, width = len(ranking.users) + len(ranking.items), ranking.users.shape[1]
    rungs = ladder(rows, width, min(largest_c, rows))
    if not rungs:
        raise UserError(f"A table of {rows:,} rows and {width} columns is too small to be coded with fewer values.")
    trials: list[Trial] = []
    best: Compressed | None = None
    with progress("Searching sizes", int(np.ceil(np.log2(len(rungs) + 1))), "sizes", quiet) as task:

        def is_good_enough(sizes: Sizes) -> bool:
            nonlocal best
            coded = coder(sizes)
            assert coded.user_vectors is not None
            after = headline(Ranking(coded.user_vectors, coded.item_vectors, train), validation)[OBJECTIVE]
            loss = 1 - after / before
            trials.append(Trial(sizes.c, sizes.t, coded.num_values, loss))
            task.advance(note=f"c={sizes.c} t={sizes.t} loses {loss:.1%}")
            best = coded if loss <= tolerance else best
            return loss <= tolerance

        bisect_left(rungs, True, key=is_good_enough)
    if best is None:
        closest = min(trials, key=lambda trial: trial.loss)
        raise UserError(
            f"No size keeps the loss within {tolerance:.1%}: the closest, c = {closest.c:,} and t = {closest.t}, loses "
            f"{closest.loss:.1%}, so allow more with --tolerance."
        )
    return best, trials
