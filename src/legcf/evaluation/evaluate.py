# SPDX-License-Identifier: Apache-2.0
"""Compute metrics of a ranking: their mean over the users who have held-out items."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.core.errors import UserError
from legcf.core.jit import njit, prange
from legcf.core.random_streams import Stream, fixed_generator
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation.beyond_accuracy import coverage, novelty, similarity
from legcf.evaluation.metrics import METRICS
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank

DEFAULT_KS = (5, 10, 20)
Ranker = Callable[[Ranking, int, Positions | None, Interactions | None], tuple[IntArray, FloatArray]]
"""Returns the best items of users, and their scores: `topk.rank`, or a function that returns the same."""
_MOST_SCORES, _LEAST_USERS = 10**10, 10_000  # of a report, which is made once: minutes on two cores
CHOOSING_SCORES = 2 * 10**9
"""Scores (users × items) that one of many candidates may cost while a setting is selected."""


def evaluate(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
    ranker: Ranker = rank,
) -> dict[str, float]:
    """Return mean metrics such as "recall@20", and catalogue coverage, over users who have held-out items (`truth`).

    None of `users` or `metrics` means all. A `Reranker` remembers the products of vectors that many rankings share.
    Each process of a distributed run evaluates its share of the users, and all return the same means.
    """
    return evaluate_with_users(ranking, truth, ks, users, metrics, ranker)[0]


def evaluate_with_users(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
    ranker: Ranker = rank,
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """Return what `evaluate` returns, and the metrics of every user of this process."""
    names = None if metrics is None else sorted(metrics)  # all processes in the same order, of a set as well
    local, ranked = _rank_local(ranking, max(ks), with_truth(truth, users), ranker)
    per_user = _per_user(truth, local, ranked, ks, names)
    return _means(ranking, truth, ranked, ks, per_user), per_user


def _rank_local(ranking: Ranking, k: int, users: Positions, ranker: Ranker) -> tuple[Positions, IntArray]:
    """Return this process's share of the users, and the items that each of them is shown, best first.

    It is not a range of them, since busy users may stand together.
    """
    local = users[distributed.rank() :: distributed.world_size()]
    return local, ranker(ranking, k, local, ranking.hidden)[0]


def _means(
    ranking: Ranking,
    truth: Interactions,
    ranked: IntArray,
    ks: Sequence[int],
    per_user: Mapping[str, NDArray[np.float64]],
    beyond: bool = False,
) -> dict[str, float]:
    """Return means over the users of all processes; with `beyond`, of novelty and similarity as well."""
    count = len(ranked)
    means = {name: float(values.mean()) if values.size else 0.0 for name, values in per_user.items()}
    for k in ks if beyond else ():
        means[f"novelty@{k}"] = novelty(ranked[:, :k], ranking.popularity, ranking.num_users)
        means[f"similarity@{k}"] = similarity(ranked[:, :k], ranking.items)
    *sums, total = distributed.all_reduce_sum(np.array([*(mean * count for mean in means.values()), count]))
    result = {name: float(value / max(total, 1)) for name, value in zip(means, sums, strict=True)}
    for k in ks:
        result[f"coverage@{k}"] = coverage(ranked[:, :k], truth.num_items)
    return result


def accuracy(ranking: Ranking, truth: Interactions, ks: Sequence[int] = DEFAULT_KS) -> dict[str, float]:
    """Return all metrics, and `fallback_users`: how many evaluated users are shown popular items, having no history."""
    return accuracies(ranking, {"": truth}, ks)[""]


def accuracies(
    ranking: Ranking, truths: Mapping[str, Interactions], ks: Sequence[int] = DEFAULT_KS, among: Positions | None = None
) -> dict[str, dict[str, float]]:
    """Return what `accuracy` returns for several parts of a data set, ranking every user once.

    `among` names the users who are evaluated. Without it they are all, or a sample of `judged_users` where all would
    take hours.
    """
    samples = {name: eval_users(truth) if among is None else among for name, truth in truths.items()}
    evaluated = {name: with_truth(truth, samples[name]) for name, truth in truths.items()}
    everyone = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *evaluated.values()]))
    local, ranked = _rank_local(ranking, max(ks), everyone, rank)
    is_cold = np.zeros(ranking.num_users, dtype=np.bool_)
    is_cold[everyone] = ranking.cold_users(everyone)
    result = {}
    for name, truth in truths.items():
        own = np.isin(local, evaluated[name], assume_unique=True)
        per_user = _per_user(truth, local[own], ranked[own], ks, None)
        means = _means(ranking, truth, ranked[own], ks, per_user, beyond=True)
        sampled = {} if samples[name] is None else {"judged_users": len(evaluated[name])}
        result[name] = {**means, "fallback_users": int(is_cold[evaluated[name]].sum()), **sampled}
    return result


def eval_users(truth: Interactions, scores: int | None = None) -> Positions | None:
    """Return the users to evaluate: a sample for about `scores` scores, the same for the same data; None: everyone.

    Without `scores`, only where to rank all items for all users would take hours.
    """
    most = max(_LEAST_USERS, _MOST_SCORES // max(truth.num_items, 1))
    if scores is not None:
        most = min(most, max(_LEAST_USERS // 2, scores // max(truth.num_items, 1)))
    candidates = with_truth(truth, None)
    if len(candidates) <= most:
        return None
    return np.sort(fixed_generator().choice(candidates, most, replace=False))


def new_pairs(dataset: Dataset, users: IdMap, items: IdMap, seen: Interactions) -> tuple[Interactions, dict[str, int]]:
    """Return the pairs of a dataset (its test part, if it has one) that a model of these ids has not seen.

    Also return counts of them and of the pairs that were left out.
    """
    offered = dataset.test if dataset.test.num_pairs else dataset.known
    user_index, item_index = users.find_all(dataset.users), items.find_all(dataset.items)
    known_pairs = offered.renumbered(user_index, item_index, len(users), len(items))
    kept = ~np.isin(known_pairs.keys(), seen.keys())
    counts = {
        "pairs": int(kept.sum()),
        "unknown_users": int((user_index[np.unique(offered.users())] < 0).sum()),
        "unknown_items": int((item_index[np.unique(offered.items)] < 0).sum()),
        "unknown_pairs": offered.num_pairs - known_pairs.num_pairs,
        "trained_pairs": known_pairs.num_pairs - int(kept.sum()),
    }
    if not counts["pairs"]:
        raise UserError(
            f"{dataset.name} has no pair to measure the model by: of {offered.num_pairs:,} it was trained on"
            f" {counts['trained_pairs']:,}, and {counts['unknown_pairs']:,} have a user or item that it does not know."
        )
    return known_pairs.subset(kept), counts


def sample_eval_users(truth: Interactions, count: int | None, seed: int) -> Positions | None:
    """Return a seeded sample of `count` users with held-out items; None: everyone.

    Without `count`, the size of the sample follows from `CHOOSING_SCORES`.
    """
    if count is None:
        return eval_users(truth, CHOOSING_SCORES)
    candidates = with_truth(truth, None)
    if count >= len(candidates):
        return None
    # A stream of its own: how many users are evaluated must not change what is sampled for training.
    return np.sort(Stream.VALIDATION_USERS.generator(seed).choice(candidates, count, replace=False))


def evaluate_per_user(
    ranking: Ranking,
    truth: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: Positions | None = None,
    metrics: Iterable[str] | None = None,
) -> tuple[dict[str, NDArray[np.float64]], IntArray, NDArray[np.int64]]:
    """Return the metrics of every user, their ranked lists, and which users they are."""
    evaluated = with_truth(truth, users)
    ranked = rank(ranking, max(ks), evaluated, ranking.hidden)[0]
    return _per_user(truth, evaluated, ranked, ks, metrics), ranked, evaluated


def _per_user(
    truth: Interactions, users: Positions, ranked: IntArray, ks: Sequence[int], metrics: Iterable[str] | None
) -> dict[str, NDArray[np.float64]]:
    hits, relevant = find_hits(ranked, users, truth), truth.user_degrees[users]
    return {f"{name}@{k}": METRICS[name](hits, relevant, k) for name in metrics or METRICS for k in ks}


def with_truth(truth: Interactions, users: Positions | None) -> NDArray[np.int64]:
    """Return those of the users, or of all, who have held-out items."""
    candidates = np.arange(truth.num_users) if users is None else np.asarray(users, dtype=np.int64)
    return candidates[truth.user_degrees[candidates] > 0]


def find_hits(ranked: IntArray, users: Positions, truth: Interactions) -> NDArray[np.bool_]:
    """Mark the entries of the ranked lists that are items of the truth."""
    hits = np.zeros(ranked.shape, dtype=np.bool_)
    _find_hits(ranked, np.asarray(users), truth.indptr, truth.items, hits)
    return hits


@njit(cache=True, parallel=True)
def _find_hits(ranked, users, indptr, items, hits):  # type: ignore[no-untyped-def]
    for row in prange(ranked.shape[0]):
        first, last = indptr[users[row]], indptr[users[row] + 1]
        for column in range(ranked.shape[1]):
            item, low, high = ranked[row, column], first, last
            while low < high:  # bisection by hand: numpy's takes the compiler seconds
                middle = (low + high) // 2
                if items[middle] < item:
                    low = middle + 1
                else:
                    high = middle
            hits[row, column] = low < last and items[low] == item
