# SPDX-License-Identifier: Apache-2.0
"""Whether older pairs should count less: half-lives against none, by the future, all measured in one run.

    python benchmarks/bench_decay.py [--seeds N]

movielens-small, which has times, with the protocol `temporal`: the last fifth of all pairs is tested on, the tenth
before that validates. Every half-life has a model of its own with the default preset, chosen on validation as always.
Writes benchmarks/results/bench_decay.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from legcf.data.source import DataOptions, load_data
from legcf.recommender import Recommender

HERE = Path(__file__).resolve().parent
HALF_LIVES = (None, "4y", "1y", "180d", "60d")
METRICS = ("recall@20", "ndcg@20")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=1, help="models per half-life; their mean counts")
    given = options.parse_args()
    found = {}
    for half_life in HALF_LIVES:
        dataset = load_data("movielens-small", DataOptions(protocol="temporal", half_life=half_life))
        models = [Recommender(seed=seed).fit(dataset) for seed in range(given.seeds)]
        parts = {part: [model.metrics[part] for model in models] for part in ("validation", "test")}
        found[half_life or "none"] = {
            f"{part} {name}": float(np.mean([one[name] for one in all_of]))
            for part, all_of in parts.items()
            for name in METRICS
        }
        print(half_life or "none", found[half_life or "none"], flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "bench_decay.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
