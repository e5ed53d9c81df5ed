# SPDX-License-Identifier: Apache-2.0
"""What a second view of the items is worth beside the vectors and lists of a file, in the same bytes.

    legcf train DATA --protocol legcf --cold keep --bytes 4MB --out FILE
    legcf train DATA --protocol legcf --cold keep --method full --out GRAPH
    legcf train DATA --protocol legcf --cold keep --method chebycf --preset paper --out FILTER
    python benchmarks/study_views.py DATA --file FILE --graph GRAPH [--bytes 4MB]
    python benchmarks/study_views.py DATA --file FILE --taught
    python benchmarks/study_views.py DATA --file FILE --rival FILTER

Vectors side by side are a sum of products, so two views are one ranking. In each of them users are their histories: the
table that was trained over the graph is mapped to that. Views are rounded as a file would round them, lists take the
bytes that are left and are solved anew. Weights are climbed on some validation users, accuracy is that of the others.
`--taught` compares tables that cost no more bytes: vectors smoothed over the item graph, and factorisations to which
the file's own first items are soft positives. `--rival` compares a run with the file, by users' histories and by how
popular the held-out items are. Test pairs are not touched. Written to benchmarks/results/views.json (docs/study.md).
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.config import RankingConfig, parse_bytes
from legcf.core.files import write_json
from legcf.core.hill_climb import climb
from legcf.data.interactions import Interactions
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.evaluation.evaluate import evaluate_per_user
from legcf.evaluation.evaluator import Evaluator
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import HISTORY_POWER, history_items, pooled_ranking
from legcf.graph.adjacency import degree_normalised
from legcf.modelfile.served_model import fixed_bytes
from legcf.ranking.item_lists.lists import ItemLists, entries_within
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.precision import as_stored
from legcf.ranking.ranking import Ranking, product_spread
from legcf.ranking.score import Score, lead
from legcf.ranking.tables.embedding_table import packed_table_bytes
from legcf.ranking.topk import rank
from legcf.training.run_folder import load_model

RESULTS = Path(__file__).parent / "results" / "views.json"
ALPHAS = {"gowalla": 20.0, "yelp2018": 10.0, "lastfm": 10.0}  # as found on training pairs (docs/study.md, section 9)
RIDGES = {"lastfm": 40.0}  # λ (docs/study.md, section 13); 20 elsewhere
WIDTH, WEIGHT_STEPS, LEAST, MOST, LAPS = 128, (2.0, 2.0**0.5), 2.0**-6, 2.0**6, 2
SOFT_POSITIVES, SOFT_WEIGHTS, HOPS = 20, (0.05, 0.2), (0.5, 2.0)
CHOOSERS = 5000  # users who choose weights, but never more than a third
COMPARED = 3000  # users who are compared with a rival, evenly spaced


@dataclass(frozen=True, eq=False)
class View:
    """Hold item vectors as a file keeps them, and the bytes that they take."""

    ranking: Ranking
    packed_bytes: int


@dataclass(frozen=True, eq=False)
class Study:
    """Hold what all combinations of views share."""

    fitter: ListFitter
    ranking: RankingConfig
    byte_budget: int
    chooser: Evaluator
    others: Evaluator

    def measured(self, views: list[View]) -> tuple[dict[str, Any], Score]:
        """Choose the weights of views and lists, and measure them on the users who did not choose."""
        taken = sum(view.packed_bytes for view in views)
        entries = entries_within(self.byte_budget - taken, self.fitter.train.num_items, self.ranking.list_bits)
        lists = self.fitter.lists(self.ranking, entries)
        weights = [0.25, *[1.0] * (len(views) - 1)]  # of the lists, and of the views after the first

        def score(trial: list[float]) -> float:
            return self.chooser.scored(self._joined(views, lists, trial))[1]

        for _ in range(LAPS if len(views) > 1 else 1):
            for place in range(len(weights)):
                for factor in WEIGHT_STEPS:
                    weights[place] = climb(_one(score, weights, place), weights[place], LEAST, MOST, factor)
        metrics, found = self.others.scored(self._joined(views, lists, weights))
        facts = {"vectors": taken, "entries": entries, "weights": [round(weight, 3) for weight in weights]}
        return {"recall@20": metrics["recall@20"], "ndcg@20": metrics["ndcg@20"], **facts}, found

    def _joined(self, views: list[View], lists: ItemLists, weights: list[float]) -> Ranking:
        """Set views side by side, each in units of the spread of its scores."""
        parts = [view.ranking for view in views]
        scales = [
            np.float32(weight / product_spread(part.users, part.items))
            for part, weight in zip(parts, [1.0, *weights[1:]], strict=True)
        ]
        users = np.hstack([part.users * scale for part, scale in zip(parts, scales, strict=True)])
        items = np.hstack([part.items for part in parts])
        joined = Ranking(users, items, parts[0].histories, popularity=parts[0].popularity)
        return self.fitter.added(joined, lists, weights[0])


def _one(score: Callable[[list[float]], float], weights: list[float], place: int) -> Callable[[float], float]:
    return lambda weight: score([*weights[:place], weight, *weights[place + 1 :]])


@dataclass(frozen=True, eq=False)
class Tables:
    """Make views of one data set's items."""

    name: str
    train: Interactions
    histories: Interactions

    def factorised(self, pairs: Interactions) -> FloatArray:
        settings = AlsSettings(alpha=ALPHAS.get(self.name, 10.0), regularisation=RIDGES.get(self.name, 20.0))
        return history_items(self.train, *factorise(pairs, WIDTH, np.random.default_rng(0), settings))

    def view(self, items: FloatArray, bits: int) -> View:
        ranking = as_stored(pooled_ranking(self.train, items, HISTORY_POWER, self.histories), bits)
        return View(ranking, packed_table_bytes(self.train.num_items, items.shape[1], bits))

    def smoothed(self, items: FloatArray, weight: float) -> FloatArray:
        """Add one hop over the item graph, in units of the vectors' own size."""
        graph = degree_normalised(self.train)
        hop = graph.T @ (graph @ items)
        result: FloatArray = (items + weight * np.linalg.norm(items) / np.linalg.norm(hop) * hop).astype(np.float32)
        return result

    def softened(self, teacher: Ranking, weight: float) -> Interactions:
        """Add the first items of the teacher's ranking to everyone's pairs."""
        train = self.train
        first = rank(teacher, SOFT_POSITIVES, np.arange(train.num_users), teacher.hidden)[0]
        starts = np.arange(0, first.size + 1, SOFT_POSITIVES)
        soft = sp.csr_matrix(
            (np.full(first.size, weight, np.float32), first.ravel(), starts), (train.num_users, train.num_items)
        )
        both = (train.to_scipy().astype(np.float32) + soft).tocsr()
        both.sort_indices()
        return Interactions(both.indptr.astype(np.int64), both.indices.astype(np.int32), train.num_items, both.data)


def compared(file: Ranking, rival: Ranking, truth: Interactions) -> dict[str, Any]:
    """Compare two runs by quarters of the users' histories, and of the popularity of what was held out."""
    able = np.flatnonzero(truth.user_degrees > 0)
    users = able[np.linspace(0, len(able) - 1, min(COMPARED, len(able))).astype(np.int64)]
    held, lengths = truth.of_users(users), file.histories.user_degrees[users]
    measured = [evaluate_per_user(one, truth, (20,), users, ("recall", "ndcg")) for one in (file, rival)]
    by_history = [
        {"histories": [int(low), int(high)], "users": int(some.sum()),
         **{name: [float(scores[name][some].mean()) for scores, _, _ in measured] for name in ("recall@20", "ndcg@20")}}
        for low, high, some in _quarters(lengths)
    ]  # fmt: skip
    found = [(shown[held.rows()] == held.items[:, None]).any(axis=1) for _, shown, _ in measured]
    by_popularity = [
        {
            "popularity": [int(low), int(high)],
            "pairs": int(some.sum()),
            "found": [float(one[some].mean()) for one in found],
        }
        for low, high, some in _quarters(file.popularity[held.items])
    ]
    shown = [float(file.popularity[items].mean()) for _, items, _ in measured]
    both, either = (
        float((found[0] & found[1]).mean()),
        [float((one & ~other).mean()) for one, other in (found, found[::-1])],
    )
    return {"by_history": by_history, "by_popularity": by_popularity, "popularity shown": shown, "found by both": both,
            "found by one alone": either}  # fmt: skip


def _quarters(values: NDArray[np.integer]) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
    bounds = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    bounds[-1] += 1
    for low, high in pairwise(bounds):
        yield int(low), int(np.ceil(high)) - 1, (values >= low) & (values < high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--file", type=Path, required=True, help="a run of a configured size, such as `default`")
    parser.add_argument("--graph", type=Path, help="a run of --method full")
    parser.add_argument("--rival", type=Path, help="a run of any method, to compare with the file")
    parser.add_argument("--taught", action="store_true", help="tables that were taught by the file, or smoothed")
    parser.add_argument("--bytes", type=parse_bytes, default=4_000_000)
    asked = parser.parse_args()
    dataset = load_data(asked.data, DataOptions(protocol="legcf", cold="keep"))
    train = dataset.train
    stored = load_model(asked.file).ranking
    assert stored.rows is not None

    def keep(name: str, row: Any) -> None:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}  # another study may have written to it
        known.setdefault(f"{asked.data.name} {asked.bytes}", {})[name] = row
        print(asked.data.name, name, json.dumps(row), flush=True)
        write_json(RESULTS, known)

    if asked.rival is not None:
        keep(f"file and {load_model(asked.rival).config.method.name}",
             compared(stored, load_model(asked.rival).ranking, dataset.validation))  # fmt: skip
    users = Evaluator(dataset.validation).evaluated_users
    everyone, places = Evaluator(dataset.validation, users=users).renumbered(), np.arange(len(users))
    step = max(3, len(users) // CHOOSERS)
    chooser, others = (replace(everyone, users=places[some]) for some in (places % step == 0, places % step != 0))
    tables = Tables(asked.data.name, train, train.of_users(users))
    byte_budget = asked.bytes - fixed_bytes(dataset.items, dataset.titles, train.item_degrees)
    settings = RankingConfig(lists=None, bytes=asked.bytes)
    study = Study(ListFitter(train, byte_budget), settings, byte_budget, chooser, others)
    if asked.graph is None and not asked.taught:
        return
    solved = tables.factorised(train)
    combinations: dict[str, list[View]] = {}
    if asked.graph is not None:
        graph = load_model(asked.graph).ranking
        over_graph = history_items(train, graph.users, graph.items)
        own = replace(graph, users=graph.users[users], histories=tables.histories)
        pooled = pooled_ranking(train, over_graph, HISTORY_POWER, tables.histories)
        keep("graph table, users' own vectors", _accuracy(own, others))
        keep("graph table, users as histories", _accuracy(pooled, others))
        file = View(replace(stored.with_histories(tables.histories), lists=None), stored.rows.packed_bytes)
        als, narrow = tables.view(solved, 2), tables.view(over_graph, 2)
        combinations |= {
            "file": [file], "file + graph, 2 bits": [file, narrow], "graph, 3 bits": [tables.view(over_graph, 3)],
            "file + ALS, 2 bits": [file, als], "ALS, 2 bits": [als], "ALS + graph, 2 bits": [als, narrow],
        }  # fmt: skip
    if asked.taught:
        combinations["ALS, not taught"] = [tables.view(solved, 2)]
        for weight in HOPS:
            combinations[f"ALS smoothed by {weight:g}"] = [tables.view(tables.smoothed(solved, weight), 2)]
        for weight in SOFT_WEIGHTS:
            softened = tables.factorised(tables.softened(stored, weight))
            combinations[f"ALS and soft positives of {weight:g}"] = [tables.view(softened, 2)]
    usual: Score | None = None
    for name, views in combinations.items():
        if sum(view.packed_bytes for view in views) >= byte_budget:
            continue
        row, found = study.measured(views)
        if name in ("file", "ALS, not taught"):
            usual = found
        elif usual is not None:
            ahead = lead(found, usual)
            row |= {"lead": ahead.difference / usual, "error": ahead.error / usual}
        keep(name, row)


def _accuracy(ranking: Ranking, evaluator: Evaluator) -> dict[str, float]:
    metrics, _ = evaluator.scored(ranking)
    return {name: metrics[name] for name in ("recall@20", "ndcg@20")}


if __name__ == "__main__":
    main()
