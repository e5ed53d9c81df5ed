# SPDX-License-Identifier: Apache-2.0
"""From a ranking and the truth to metrics; a mean over the users that have something to find."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.core.jit import njit, prange
from legcf.core.random_streams import Stream, fixed_generator
from legcf.data.interactions import Interactions
from legcf.evaluation.beyond_accuracy import coverage, novelty, similarity
from legcf.evaluation.metrics import METRICS
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank

DEFAULT_KS = (5, 10, 20)
Ranker = Callable[[Ranking, int, Positions | None, Interactions | None], tuple[IntArray, FloatArray]]
"""The best items of users, and their scores: `topk.rank`, or what gives the same."""
_MOST_SCORES, _LEAST_JUDGES = 10**10, 10_000
CHOOSING_SCORES = 2 * 10**9  # what one of many choices may cost; a report is made once


def evaluate(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
    beyond: bool = False,
    rank: Ranker = rank,
) -> dict[str, float]:
    """Mean metrics such as "recall@20", and catalogue coverage, over `users` with any truth; all of both by default.

    With `beyond` also novelty and diversity of the lists (`legcf.evaluation.beyond_accuracy`). A rank judges
    its share of the users. Who judges many rankings of the same vectors may bring a `rank` that remembers.
    """
    able = _able(truth, users)
    names = None if metrics is None else sorted(metrics)  # all ranks in the same order, of a set as well
    mine = _mine(able)
    ranked, _ = rank(ranking, max(ks), mine, ranking.histories)
    return _means(ranking, truth, ks, mine, ranked, names, beyond)


def _mine(users: Positions) -> Positions:
    """My rank's share, not a range: busy users may stand together."""
    return users[distributed.rank() :: distributed.world_size()]


def _means(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int],
    mine: Positions,
    ranked: IntArray,
    metrics: Iterable[str] | None,
    beyond: bool,
) -> dict[str, float]:
    """Over the users of all ranks, of whom these are mine, with the lists they are shown."""
    per_user = _per_user(truth, ks, mine, ranked, metrics)
    means = {name: float(values.mean()) if values.size else 0.0 for name, values in per_user.items()}
    for k in ks if beyond else ():
        means[f"novelty@{k}"] = novelty(ranked[:, :k], ranking.popularity, ranking.num_users)
        means[f"similarity@{k}"] = similarity(ranked[:, :k], ranking.items)
    *sums, count = distributed.all_reduce_sum(np.array([*(mean * len(mine) for mean in means.values()), len(mine)]))
    result = {name: float(value / max(count, 1)) for name, value in zip(means, sums, strict=True)}
    for k in ks:
        result[f"coverage@{k}"] = coverage(ranked[:, :k], truth.num_items)
    return result


def accuracy(ranking: Ranking, truth: Interactions, ks: Sequence[int] = DEFAULT_KS) -> dict[str, float]:
    """All metrics, and how many of the users they are a mean of were shown what is popular, for lack of a history."""
    return accuracies(ranking, {"": truth}, ks)[""]


def accuracies(
    ranking: Ranking,
    truths: Mapping[str, Interactions],
    ks: Sequence[int] = DEFAULT_KS,
    among: Positions | None = None,
) -> dict[str, dict[str, float]]:
    """The same for several parts of one data set, with one ranking of all users who have anything to find in any, or of
    those `among` them who are named."""
    judging = {name: eval_users(truth) if among is None else among for name, truth in truths.items()}
    able = {name: _able(truth, judging[name]) for name, truth in truths.items()}
    everyone = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *able.values()]))
    mine = _mine(everyone)
    ranked, _ = rank(ranking, max(ks), mine, ranking.histories)
    cold_users = np.zeros(ranking.num_users, dtype=np.bool_)
    cold_users[everyone] = ranking.cold_users(everyone)
    found = {}
    for name, truth in truths.items():
        asked = np.isin(mine, able[name], assume_unique=True)
        means = _means(ranking, truth, ks, mine[asked], ranked[asked], None, beyond=True)
        told = {} if judging[name] is None else {"judged_users": len(able[name])}
        found[name] = {**means, "fallback_users": int(cold_users[able[name]].sum()), **told}
    return found


def selection_score(metrics: Mapping[str, float], monitor: str) -> float:
    """What is chosen by: the geometric mean of the monitored metric and of recall at the same length. Two rankings
    differ in both, and less by luck."""
    return float(np.sqrt(metrics[monitor] * metrics[f"recall@{monitor.partition('@')[2]}"]))


def eval_users(truth: Interactions, scores: int | None = None) -> Positions | None:
    """Who is asked where users and items are so many that to rank all items for all users would take hours: a sample,
    the same for the same data, for about so many scores. None: everyone."""
    most = max(_LEAST_JUDGES, _MOST_SCORES // max(truth.num_items, 1))
    if scores is not None:
        most = min(most, max(_LEAST_JUDGES // 2, scores // max(truth.num_items, 1)))
    able = _able(truth, None)
    return None if len(able) <= most else np.sort(fixed_generator().choice(able, most, replace=False))


def sample_eval_users(truth: Interactions, count: int | None, seed: int) -> Positions | None:
    """So many of those who have anything to find, where they are more: enough to choose by; as many as can be asked
    often, if no number is given. None: everyone."""
    if count is None:
        return eval_users(truth, CHOOSING_SCORES)
    able = _able(truth, None)
    if count >= len(able):
        return None
    # A generator of its own: how many users judge must not change what is sampled for training.
    return np.sort(Stream.VALIDATION_USERS.generator(seed).choice(able, count, replace=False))


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
    return _per_user(truth, ks, chosen, ranked, metrics), ranked, chosen


def _per_user(
    truth: Interactions, ks: Sequence[int], users: Positions, ranked: IntArray, metrics: Iterable[str] | None
) -> dict[str, NDArray[np.float64]]:
    hits, relevant = find_hits(ranked, users, truth), truth.user_degrees[users]
    return {f"{name}@{k}": METRICS[name](hits, relevant, k) for name in metrics or METRICS for k in ks}


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
