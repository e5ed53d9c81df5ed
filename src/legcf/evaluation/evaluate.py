"""From vectors and truth to metrics; a mean over the users that have something to find."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.evaluation.metrics import METRICS
from legcf.evaluation.ranking import FloatArray, find_hits, rank
from legcf.graph.neighbours import Neighbours

DEFAULT_KS = (5, 10, 20)


def evaluate(
    user_vectors: FloatArray,
    item_vectors: FloatArray,
    truth: Interactions,
    seen: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: NDArray[np.integer] | None = None,
    metrics: Iterable[str] = tuple(METRICS),
    neighbours: Neighbours | None = None,
) -> dict[str, float]:
    """Mean metrics such as "recall@20", and catalogue coverage, over `users` (all by default) with any truth."""
    per_user, ranked, _ = evaluate_per_user(user_vectors, item_vectors, truth, seen, ks, users, metrics, neighbours)
    result = {name: float(values.mean()) if values.size else 0.0 for name, values in per_user.items()}
    for k in ks:
        shown = np.unique(ranked[:, :k])
        result[f"coverage@{k}"] = float((shown >= 0).sum() / max(truth.num_items, 1))
    return result


def evaluate_per_user(
    user_vectors: FloatArray,
    item_vectors: FloatArray,
    truth: Interactions,
    seen: Interactions,
    ks: Sequence[int] = DEFAULT_KS,
    users: NDArray[np.integer] | None = None,
    metrics: Iterable[str] = tuple(METRICS),
    neighbours: Neighbours | None = None,
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int32], NDArray[np.int64]]:
    """Metrics of every user, their ranked lists, and which users they are."""
    candidates = np.arange(truth.num_users) if users is None else np.asarray(users, dtype=np.int64)
    chosen = candidates[truth.user_degrees[candidates] > 0]
    ranked, _ = rank(user_vectors, item_vectors, max(ks), chosen, seen, neighbours)
    hits = find_hits(ranked, chosen, truth)
    relevant = truth.user_degrees[chosen]
    per_user = {f"{name}@{k}": METRICS[name](hits, relevant, k) for name in metrics for k in ks}
    return per_user, ranked, chosen
