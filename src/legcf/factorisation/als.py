# SPDX-License-Identifier: Apache-2.0
"""Factorise implicit feedback by alternating least squares: a strong table in seconds, the teacher of a warm start.

Hu, Koren and Volinsky, "Collaborative Filtering for Implicit Feedback Datasets", ICDM 2008, with a few conjugate
gradient steps a row instead of an exact solution (Takács, Pilászy and Tikk, RecSys 2011). Minimises
Σ_observed c (1 − u·v)² + Σ_others (u·v)² + λ (‖U‖² + ‖V‖²), where c = α · the pair's weight.
"""

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from legcf.core import distributed
from legcf.core.arrays import FloatArray, inverse_power
from legcf.core.config import Frozen
from legcf.core.hill_climb import climb
from legcf.core.progress import progress
from legcf.data.interactions import MANY_PAIRS, SAMPLE_ITEMS, Interactions
from legcf.evaluation.evaluator import Evaluator
from legcf.factorisation.half_step import solve_shared, solve_turned, tiles_of, turn
from legcf.factorisation.history_vectors import HISTORY_POWER, history_items, pooled_ranking
from legcf.ranking.score import is_surely_better

_FIRST_ALPHA = 10.0  # in the middle of what was best: 5 on LastFM, 10 on Yelp2018, 20 on Gowalla
_HIDDEN = 0.1  # share of the training pairs that α is scored by; not measured, nor are the next two
_EVAL_USERS = 5000  # 2,000 chose 10 in place of 20 for one of three seeds of Gowalla, which cost 1 % of recall
# Trials are scored at 100, by sums over histories, and another α has to be surely better: so ten of twelve seeds choose
# 20 on Gowalla, one 10 and one 40, and all choose 10 on Yelp2018. The best at 20 was 40 on Gowalla and 20 on Yelp2018
# with some seeds, which cost 1 and 4 % on test; users' own vectors chose 20, 10 and 5 on three splits of Gowalla.
_TRIAL_LENGTH = 100
_TRIAL_ROUNDS = 3  # two choose the same on Gowalla and Yelp2018, and worse on generated pairs and parts of Yelp2018
_ROWS_DRAWN = 2**16


class AlsSettings(Frozen):
    alpha: float | None = Field(
        None, gt=0, description="how much more an observed pair weighs than another; found on training pairs if null"
    )
    regularisation: float = Field(5.0, ge=0, description="λ, the weight of the squared norms")
    rounds: int = Field(8, ge=1, description="times both sides are solved")
    degree_power: float = Field(
        0.4, description="a pair weighs 1 / (user degree · item degree)^power, rescaled to mean 1; 0: all the same"
    )
    gradient_steps: int = Field(3, ge=1, description="conjugate gradient steps a row and round")


def factorise(
    train: Interactions,
    width: int,
    rng: np.random.Generator,
    settings: AlsSettings,
    quiet: bool = True,
    title: str = "Factorising",
    start: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return user and item vectors whose inner products rank, from `start` on, or from small random ones.

    A rank solves its share of the users and keeps no others until the end; from them comes its part of an item's
    equations.
    """
    if settings.alpha is None:
        settings = with_alpha(train, width, rng, settings, quiet)
    shares = distributed.row_partition(train.indptr)
    mine = distributed.local_rows(shares)
    by_user = confidences(train, settings, mine)
    tiles = tiles_of(by_user, width) if distributed.world_size() > 1 else [(slice(None), by_user.T.tocsr())]
    if start is None:
        users = _drawn(train.num_users, width, rng, mine)
        items = _drawn(train.num_items, width, rng, slice(0, train.num_items))
    else:
        users, items = start[0][mine].copy(), start[1].copy()
    turned = np.eye(width)
    with progress(title, settings.rounds, "rounds", quiet) as task:
        for _ in range(settings.rounds):
            turned = turned @ solve_turned(by_user, users, items, settings)
            if distributed.world_size() > 1:
                solve_shared(tiles, items, users, settings)
            else:
                turned = turned @ solve_turned(tiles[0][1], items, users, settings)
            task.advance()
    for vectors in (users, items):  # back, since the last bits of G decide the signs of a turn
        turn(vectors, turned.T.astype(np.float32))
    if distributed.world_size() == 1:
        return users, items
    everyone = np.empty((train.num_users, width), dtype=np.float32)
    everyone[mine] = users
    return distributed.all_gather_rows(everyone, shares), items


def _drawn(rows: int, width: int, rng: np.random.Generator, kept: slice) -> FloatArray:
    """Draw small random vectors; all are drawn, block after block, so that they are the same however few are kept."""
    vectors = np.empty((kept.stop - kept.start, width), dtype=np.float32)
    for start in range(0, rows, _ROWS_DRAWN):
        block = rng.random((min(_ROWS_DRAWN, rows - start), width)) * 0.01
        first, last = max(start, kept.start), min(start + len(block), kept.stop)
        if first < last:
            vectors[first - kept.start : last - kept.start] = block[first - start : last - start]
    return vectors


def with_alpha(
    train: Interactions,
    width: int,
    rng: np.random.Generator,
    settings: AlsSettings,
    quiet: bool = True,
) -> AlsSettings:
    """Return the settings with the α that finds hidden training pairs best, by short factorisations of the others.

    The best α is a property of the data (5 on LastFM, 10 on Yelp2018, 20 on Gowalla), and it must not depend on
    validation pairs, which some protocols do not have. Of many pairs, those of some users are enough. Trials are
    ranked by sums over histories, as the model that is made of them will be: an α too small fits a user's own vector
    better, and its history worse.
    """
    if train.num_pairs > MANY_PAIRS:
        if train.num_items > SAMPLE_ITEMS:
            train = train.of_items(train.most_popular(SAMPLE_ITEMS))
        train = train.of_users(train.some_users(MANY_PAIRS, rng))
    hidden = rng.random(train.num_pairs) < _HIDDEN
    seen, truth = train.subset(~hidden), train.subset(hidden)
    able = np.flatnonzero((seen.user_degrees > 0) & (truth.user_degrees > 0))
    if not len(able):
        return settings.model_copy(update={"alpha": _FIRST_ALPHA})
    sample = np.sort(rng.choice(able, min(_EVAL_USERS, len(able)), replace=False))
    evaluator, histories = Evaluator(truth.of_users(sample), f"ndcg@{_TRIAL_LENGTH}"), seen.of_users(sample)
    start = int(rng.integers(2**32))

    def score(alpha: float) -> float:
        trial = settings.model_copy(update={"alpha": alpha, "rounds": min(settings.rounds, _TRIAL_ROUNDS)})
        users, items = factorise(
            seen,
            width,
            np.random.default_rng(start),
            trial,
            quiet,
            f"Factorising with α = {alpha:g}",
        )
        ranking = pooled_ranking(seen, history_items(seen, users, items), HISTORY_POWER, histories)
        return evaluator.scored(ranking)[1]

    least, most = 0.1 * _FIRST_ALPHA, 10 * _FIRST_ALPHA
    return settings.model_copy(update={"alpha": climb(score, _FIRST_ALPHA, least, most, is_better=is_surely_better)})


def confidences(train: Interactions, settings: AlsSettings, users: slice | None = None) -> sp.csr_matrix:
    """Return c of every pair of a range of users, all by default, in CSR form by user."""
    users = users or slice(0, train.num_users)
    bounds, degrees = train.indptr[users.start : users.stop + 1], train.user_degrees[users]
    items = train.items[bounds[0] : bounds[-1]]
    weights = np.repeat(inverse_power(degrees, settings.degree_power), degrees)
    weights *= inverse_power(train.item_degrees, settings.degree_power)[items]
    if train.weights is not None:
        weights *= train.weights[bounds[0] : bounds[-1]]
    assert settings.alpha is not None  # `factorise` has found one
    total = distributed.all_reduce_sum(weights.sum(keepdims=True))[0]
    if total:  # a fold of very few pairs may have none
        weights *= settings.alpha / (total / train.num_pairs)
    return sp.csr_matrix((weights.astype(np.float32), items, bounds - bounds[0]), (len(degrees), train.num_items))
