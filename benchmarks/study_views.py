# SPDX-License-Identifier: Apache-2.0
"""What a second view of the items is worth beside the vectors and lists of a file, in the same bytes.

    legcf train DATA --protocol legcf --cold keep --bytes 4MB --out FILE
    legcf train DATA --protocol legcf --cold keep --method full --out GRAPH
    python benchmarks/study_views.py DATA --file FILE --graph GRAPH [--bytes 4MB]

Vectors side by side are a sum of products, so two views are one ranking. In each of them users are their histories: the
table that was trained over the graph is mapped to that. Views are rounded as a file would round them, lists take the
bytes that are left and are solved anew. Weights are climbed on a third of the validation users, accuracy is that of
the others. Test pairs are not touched. Written to benchmarks/results/views.json (docs/study.md).
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.config import RankingConfig, parse_bytes
from legcf.core.files import write_json
from legcf.core.hill_climb import climb
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.evaluation.evaluator import Evaluator
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import HISTORY_POWER, history_items, pooled_ranking
from legcf.modelfile.served_model import fixed_bytes
from legcf.ranking.item_lists.lists import ItemLists, entries_within
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.precision import as_stored
from legcf.ranking.ranking import Ranking, product_spread
from legcf.ranking.score import Score, lead
from legcf.ranking.tables.embedding_table import packed_table_bytes
from legcf.training.run_folder import load_model

RESULTS = Path(__file__).parent / "results" / "views.json"
ALPHAS = {"gowalla": 20.0, "yelp2018": 10.0, "lastfm": 10.0}  # as found on training pairs (docs/study.md, section 9)
RIDGES = {"lastfm": 40.0}  # λ (docs/study.md, section 13); 20 elsewhere
WIDTH, WEIGHT_STEPS, LEAST, MOST, LAPS = 128, (2.0, 2.0**0.5), 2.0**-6, 2.0**6, 2


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
                weights[place] = climb(_one(score, weights, place), weights[place], LEAST, MOST, WEIGHT_STEPS)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--file", type=Path, required=True, help="a run of `default`")
    parser.add_argument("--graph", type=Path, required=True, help="a run of --method full")
    parser.add_argument("--bytes", type=parse_bytes, default=4_000_000)
    parser.add_argument("--only", nargs="+", help="combinations, as in file+graph/2")
    asked = parser.parse_args()
    name = asked.data.name
    dataset = load_data(asked.data, DataOptions(protocol="legcf", cold="keep"))
    train = dataset.train
    judges = Evaluator(dataset.validation).evaluated_users
    histories = train.of_users(judges)
    everyone = Evaluator(dataset.validation, users=judges).renumbered()
    places = np.arange(len(judges))
    chooser, others = (replace(everyone, users=places[mask]) for mask in (places % 3 == 0, places % 3 != 0))
    byte_budget = asked.bytes - fixed_bytes(dataset.items, dataset.titles, train.item_degrees)
    settings = RankingConfig(lists=None, bytes=asked.bytes)
    study = Study(ListFitter(train, byte_budget), settings, byte_budget, chooser, others)

    def table(items: FloatArray, bits: int) -> View:
        ranking = as_stored(pooled_ranking(train, items, HISTORY_POWER, histories), bits)
        return View(ranking, packed_table_bytes(train.num_items, items.shape[1], bits))

    stored = load_model(asked.file).ranking
    assert stored.rows is not None
    graph = load_model(asked.graph).ranking
    als = AlsSettings(alpha=ALPHAS.get(name, 10.0), regularisation=RIDGES.get(name, 20.0))
    solved = history_items(train, *factorise(train, WIDTH, np.random.default_rng(0), als))
    over_graph = history_items(train, graph.users, graph.items)
    views = {
        "file": View(replace(stored.with_histories(histories), lists=None), stored.rows.packed_bytes),
        **{f"als/{bits}": table(solved, bits) for bits in (2, 3)},
        **{f"graph/{bits}": table(over_graph, bits) for bits in (2, 3)},
    }
    combinations = ["file", "file+graph/2", "graph/3", "file+als/2", "als/2", "als/2+graph/2"]
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = known.setdefault(f"{name} {asked.bytes}", {})
    rows["graph table alone, floats"] = {
        "own vectors of users": _alone(replace(graph, users=graph.users[judges], histories=histories), others),
        "users as histories": _alone(pooled_ranking(train, over_graph, HISTORY_POWER, histories), others),
    }
    usual: Score | None = None
    for combination in combinations if asked.only is None else asked.only:
        parts = combination.split("+")
        if sum(views[part].packed_bytes for part in parts) >= byte_budget:
            continue
        row, found = study.measured([views[part] for part in parts])
        if combination == "file":
            usual = found
        elif usual is not None:
            ahead = lead(found, usual)
            row |= {"lead": ahead.difference / usual, "error": ahead.error / usual}
        rows[combination] = row
        print(name, combination, json.dumps(row), flush=True)
        write_json(RESULTS, known)


def _alone(ranking: Ranking, judges: Evaluator) -> list[float]:
    metrics, _ = judges.scored(ranking)
    return [metrics["recall@20"], metrics["ndcg@20"]]


if __name__ == "__main__":
    main()
