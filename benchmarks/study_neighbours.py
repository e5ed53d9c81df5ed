# SPDX-License-Identifier: Apache-2.0
"""How much should neighbours count? Validation against the weight of the neighbours' term, for runs that are there.

    python benchmarks/study_neighbours.py RUN [RUN …] [--users N]

Takes the trained vectors of each run as they are and ranks with weights from none to neighbours alone. Prints recall@20
and NDCG@20 on validation and writes benchmarks/results/neighbours.json and docs/images/neighbours.svg. Test is never
looked at.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from legcf.evaluation import evaluate
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.ranking import Ranking
from legcf.recommender import Recommender

HERE = Path(__file__).resolve().parent
WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ALONE = "alone"
STYLES = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--users", type=int, default=10_000, help="validation users, drawn once")
    given = options.parse_args()
    results = [measured(run, given.users) for run in given.runs]
    table = Table(title="Validation recall@20 / ndcg@20")
    for column in ("weight", *(result["dataset"] for result in results)):
        table.add_column(column, justify="right")
    for weight in (*map(str, WEIGHTS), ALONE):
        table.add_row(weight, *("{:.4f} / {:.4f}".format(*result["scores"][weight]) for result in results))
    Console().print(table)
    (HERE / "results" / "neighbours.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results)


def measured(run: Path, users: int) -> dict[str, Any]:
    model = Recommender.load(run)
    dataset = model.dataset()
    able = np.flatnonzero(dataset.validation.user_degrees > 0)
    eval_users = np.sort(np.random.default_rng(0).choice(able, min(users, len(able)), replace=False))
    vectors = replace(model.ranking, term=None)
    plain = Neighbours.of(dataset.train)

    def score(ranking: Ranking) -> tuple[float, float]:
        found = evaluate(ranking, dataset.validation, (20,), eval_users, ("recall", "ndcg"))
        return found["recall@20"], found["ndcg@20"]

    def near(weight: float) -> Ranking:
        return replace(vectors, term=plain.weighing(weight, vectors)) if weight else vectors

    scores = {str(weight): score(near(weight)) for weight in WEIGHTS}
    scores[ALONE] = score(replace(vectors, users=np.zeros_like(vectors.users), term=plain))
    facts = ("dataset", "protocol", "method", "preset", "seed", "num_params", "content_hash")
    return {**{fact: model.metrics[fact] for fact in facts}, "users": len(eval_users), "scores": scores}


def draw(results: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    places = [*map(str, WEIGHTS), ALONE]
    for (mark, line), result in zip(STYLES, results, strict=False):
        without = result["scores"]["0.0"][1]
        heights = [result["scores"][place][1] / without for place in places]
        axes.plot(range(len(places)), heights, marker=mark, linestyle=line, label=result["dataset"])
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.set_xticks(range(len(places)), places)
    axes.set_xlabel("weight of neighbours")
    axes.set_ylabel("validation NDCG@20 against none")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(HERE.parent / "docs" / "images" / "neighbours.svg")


if __name__ == "__main__":
    main()
