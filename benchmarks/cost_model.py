# SPDX-License-Identifier: Apache-2.0
"""What ranks cost, fitted to measurements and read off for more pairs and more machines.

    python benchmarks/cost_model.py [--measured benchmarks/results/scale.json] [--json FILE]

Each part of the work is a sum of few terms, such as the pairs of a rank; what a term costs is found by non-negative
least squares of relative errors over the rows of bench_scale.py, but for the rows marked `held_out`, by which the model
is judged. CPU seconds of the busiest rank are fitted, since on two cores four ranks wait for each other; the time on
the wire is counted from the bytes that the code sends. A machine is one rank with one thread.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

BYTES_A_SECOND = 10e9 / 8  # 10 Gbit/s
WIDTH = 128
MEASURED_ROUNDS, ROUNDS, GRADIENT_STEPS = 4, 8, 3  # of a factorisation
MEASURED_STEPS, STEPS, CODES = 100, 732, 4096  # of training: an epoch is 3,000,000 pairs in batches of 4,096
PAIRS_A_USER, USERS_AN_ITEM = 100, 2  # as in `legcf data generate --preset 1e8`


@dataclass(frozen=True)
class Shape:
    users: float
    items: float
    pairs: float
    ranks: int


Terms = Callable[[Shape], list[float]]
PARTS: dict[str, Terms] = {
    # Pairs of a rank; rows that it solves; rows that are exchanged.
    "factorisation": lambda s: [s.pairs / s.ranks, (s.users + s.items) / s.ranks, s.items * (s.ranks > 1)],
    # A rank's share of the batches; what every rank does at a step.
    "training": lambda s: [1 / s.ranks, 1.0],
    # Items that a rank scores for its share of the 20,000 users; counting them.
    "evaluation": lambda s: [s.items / s.ranks, s.items],
    "recommendations": lambda s: [s.items / s.ranks],
}


def fitted(rows: list[tuple[Shape, float]], terms: Terms) -> NDArray[np.float64]:
    table = np.array([terms(shape) for shape, _ in rows])
    seconds = np.array([found for _, found in rows])
    return nnls(table / seconds[:, None], np.ones(len(rows)))[0]


def predicted(terms: Terms, costs: NDArray[np.float64], shape: Shape) -> float:
    return float(np.dot(terms(shape), costs))


def rows_of(measured: list[dict[str, Any]], part: str, held_out: bool) -> list[tuple[Shape, float]]:
    return [
        (Shape(row["users"], row["items"], row["pairs"], int(count)), parts[part]["cpu"])
        for row in measured
        if bool(row.get("held_out")) == held_out
        for count, parts in row["ranks"].items()
        if part in parts
    ]


def read_off(costs: dict[str, NDArray[np.float64]], pairs: float, machines: int) -> dict[str, float]:
    """Minutes of a factorisation of 8 rounds and of an epoch, and the gigabytes of a rank."""
    users = pairs / PAIRS_A_USER
    shape = Shape(users, users / USERS_AN_ITEM, pairs, machines)
    work = predicted(PARTS["factorisation"], costs["factorisation"], shape)
    work *= ROUNDS / MEASURED_ROUNDS
    share = (machines - 1) / machines
    wire = ROUNDS * 2 * (GRADIENT_STEPS + 1) * share * shape.items * WIDTH * 4 / BYTES_A_SECOND
    epoch = predicted(PARTS["training"], costs["training"], shape) * STEPS / MEASURED_STEPS
    epoch_wire = STEPS * 2 * share * CODES * WIDTH * 4 / BYTES_A_SECOND
    # Pairs both ways with a weight each, the users' vectors of all, five arrays of the items'.
    memory = pairs / machines * 2 * 8 + users * WIDTH * 4 + 5 * shape.items * WIDTH * 4
    return {
        "pairs": pairs,
        "machines": machines,
        "factorisation_minutes": work / 60,
        "factorisation_wire_minutes": wire / 60,
        "epoch_minutes": epoch / 60,
        "epoch_wire_minutes": epoch_wire / 60,
        "gigabytes": memory / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=Path(__file__).parent / "results" / "scale.json")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text())
    costs = {part: fitted(rows_of(measured, part, False), terms) for part, terms in PARTS.items()}
    checks = []
    for part, terms in PARTS.items():
        for shape, found in rows_of(measured, part, True):
            expected = predicted(terms, costs[part], shape)
            checks.append({"part": part, "ranks": shape.ranks, "measured": found, "predicted": expected})
            print(f"{part:>15}, {shape.ranks} ranks, not fitted on: {found:.2f} s of CPU, predicted {expected:.2f} s")
    table = [read_off(costs, pairs, machines) for pairs in (1e9, 1e10) for machines in (8, 64)]
    print("\n| pairs | machines | factorisation: work + wire, minutes | epoch: work + wire, minutes | GB a rank |")
    print("|---|---|---|---|---|")
    for row in table:
        print(
            f"| {row['pairs']:.0e} | {row['machines']} | {row['factorisation_minutes']:.0f}"
            f" + {row['factorisation_wire_minutes']:.1f} | {row['epoch_minutes']:.1f}"
            f" + {row['epoch_wire_minutes']:.1f} | {row['gigabytes']:.0f} |"
        )
    if options.json:
        content = {"costs": {part: list(found) for part, found in costs.items()}, "checks": checks, "read_off": table}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
