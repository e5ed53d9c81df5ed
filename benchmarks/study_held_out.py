# SPDX-License-Identifier: Apache-2.0
"""How much of train to hold out where a protocol has no validation: which weight of item lists each share chooses.

    python benchmarks/study_held_out.py DATA [DATA …]

Protocol `legcf`: the training pairs are split by a random tenth, a fifth and a third of everyone's, and what these
choose is compared with what validation asks for. Vectors are a factorisation of 128 (λ = 20) in floats, lists have a
ridge of 1; 2,000 users judge. Test pairs are not touched; on Gowalla neither are validation pairs, which the protocol
`lightgcn` tests on. Written to benchmarks/results/held-out.json (docs/study.md, section 12).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from one_file import write

from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.ranking.selection_policy import SelectionPolicy
from legcf.training.registry import resolve
from legcf.training.run import build_model

RESULTS = Path(__file__).parent / "results" / "held-out.json"
SHARES = {"a tenth": 0.1, "a fifth": 0.2, "a third": 1 / 3}
WEIGHTS = tuple(2.0**power for power in range(-4, 2))
ALPHAS = {"gowalla": 20.0}  # as found on training pairs; 10 elsewhere
JUDGES = 2000


def curve(dataset: Dataset, truth: Interactions, alpha: float) -> dict[str, Any]:
    """Recall and NDCG at 20 for each weight of the lists."""
    als = {"alpha": alpha, "regularisation": 20.0}
    config = resolve("full", "history", "items", 11, {"method": {"initial": "als", "dim": 128, "als": als}})
    ranking = build_model(config, dataset, np.random.default_rng(11), None).ranking()
    fitter = ListFitter(dataset.train)
    by_item = dataset.train.transposed()
    count = SelectionPolicy.of(dataset.train).update_candidates
    candidates = find_candidates(dataset.train, count, by_item)
    lists = solve(dataset.train, candidates, (1.0,), 0.5, by_item).lists(0, 0.0).rounded(4)
    able = np.flatnonzero(truth.user_degrees > 0)
    users = np.sort(np.random.default_rng(0).choice(able, min(JUDGES, len(able)), replace=False))
    found = {
        f"{weight:g}": evaluate(fitter.added(ranking, lists, weight), truth, (20,), users, ("recall", "ndcg"))
        for weight in WEIGHTS
    }
    return {
        "pairs per judge": truth.num_pairs / len(able),
        "scores": {weight: [score["recall@20"], score["ndcg@20"]] for weight, score in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for path in parser.parse_args().data:
        dataset = load_data(path, DataOptions(protocol="legcf", cold="keep"))
        alpha = ALPHAS.get(path.name, 10.0)
        parts = {} if path.name == "gowalla" else {"validation": curve(dataset, dataset.validation, alpha)}
        nothing = Interactions.empty(dataset.num_users, dataset.num_items)
        for name, share in SHARES.items():
            held = replace(dataset, validation=nothing).holding_out(share, np.random.default_rng(3))
            parts[name] = curve(held, held.validation, alpha)
        known[path.name] = parts
        write(RESULTS, json.dumps(known, indent=1))
        print(json.dumps({path.name: parts}), flush=True)


if __name__ == "__main__":
    main()
