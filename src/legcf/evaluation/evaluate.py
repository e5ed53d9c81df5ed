# SPDX-License-Identifier: Apache-2.0
"""From a ranking and the truth to metrics; a mean over the users that have something to find."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from legcf import ranks
from legcf.arrays import IntArray, Positions
from legcf.data.interactions import Interactions
from legcf.evaluation.beyond import coverage, novelty, similarity
from legcf.evaluation.metrics import METRICS
from legcf.jit import njit, prange
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank

DEFAULT_KS = (5, 10, 20)
_MOST_SCORES, _LEAST_JUDGES = 10**10, 10_000
CHOOSING_SCORES = 2 * 10**9  # what one of many choices may cost; a report is made once


def evaluate(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
    beyond: bool = False,
) -> dict[str, float]:
    """Mean metrics such as "recall@20", and catalogue coverage, over `users` with any truth; all of both by default.

    With `beyond` also how little known and how alike the items of lists are (`legcf.evaluation.beyond`). A rank judges
    its share of the users.
    """
    able = _able(truth, users)
    mine = able[ranks.number() :: ranks.count()]  # not a range: busy users may stand together
    names = None if metrics is None else sorted(metrics)  # all ranks in the same order, of a set as well
    per_user, ranked, _ = evaluate_per_user(ranking, truth, ks, mine, names)
    means = {name: float(values.mean()) if values.size else 0.0 for name, values in per_user.items()}
    for k in ks if beyond else ():
        means[f"novelty@{k}"] = novelty(ranked[:, :k], ranking.popularity, ranking.num_users)
        means[f"similarity@{k}"] = similarity(ranked[:, :k], ranking.items)
    sums = ranks.total(np.array([mean * len(mine) for mean in means.values()]))
    result = {name: float(value / max(len(able), 1)) for name, value in zip(means, sums, strict=True)}
    for k in ks:
        result[f"coverage@{k}"] = coverage(ranked[:, :k], truth.num_items)
    return result


def accuracy(ranking: Ranking, truth: Interactions, ks: Sequence[int] = DEFAULT_KS) -> dict[str, float]:
    """All metrics, and how many of the users they are a mean of were shown what is popular, for lack of a history."""
    judging = judges(truth)
    able = _able(truth, judging)
    told = {} if judging is None else {"judged_users": len(able)}
    found = evaluate(ranking, truth, ks, judging, beyond=True)
    return {**found, "fallback_users": int(ranking.strangers(able).sum()), **told}


def judges(truth: Interactions, scores: int | None = None) -> Positions | None:
    """Who is asked where users and items are so many that to rank all items for all users would take hours: a sample,
    the same for the same data, for about so many scores. None: everyone."""
    most = max(_LEAST_JUDGES, _MOST_SCORES // max(truth.num_items, 1))
    if scores is not None:
        most = min(most, max(_LEAST_JUDGES // 2, scores // max(truth.num_items, 1)))
    able = _able(truth, None)
    return None if len(able) <= most else np.sort(np.random.default_rng(0).choice(able, most, replace=False))


def evaluate_per_user(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
) -> tuple[dict[str, NDArray[np.float64]], IntArray, NDArray[np.int64]]:
    """Metrics of every user, their ranked lists without what their histories have, and which users they are."""
    chosen = _able(truth, users)
    ranked, _ = rank(ranking, max(ks), chosen, ranking.histories)
    hits = find_hits(ranked, chosen, truth)
    relevant = truth.user_degrees[chosen]
    per_user = {f"{name}@{k}": METRICS[name](hits, relevant, k) for name in metrics or METRICS for k in ks}
    return per_user, ranked, chosen


def _able(truth: Interactions, users: Positions | None) -> NDArray[np.int64]:
    """Who has anything to find."""
    candidates = np.arange(truth.num_users) if users is None else np.asarray(users, dtype=np.int64)
    return candidates[truth.user_degrees[candidates] > 0]


def find_hits(ranked: IntArray, users: Positions, truth: Interactions) -> NDArray[np.bool_]:
    """Which places of the ranked lists hold an item of the truth."""
    hits = np.zeros(ranked.shape, dtype=np.bool_)
    _find_hits(ranked, np.asarray(users), truth.indptr, truth.items, hits)
    return hits


@njit(cache=True, parallel=True)
def _find_hits(ranked, users, indptr, items, hits):  # type: ignore[no-untyped-def]
    for row in prange(ranked.shape[0]):
        first, last = indptr[users[row]], indptr[users[row] + 1]
        for place in range(ranked.shape[1]):
            item, low, high = ranked[row, place], first, last
            while low < high:  # bisection by hand: numpy's takes the compiler seconds
                middle = (low + high) // 2
                if items[middle] < item:
                    low = middle + 1
                else:
                    high = middle
            hits[row, place] = low < last and items[low] == item
