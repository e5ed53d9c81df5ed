# SPDX-License-Identifier: Apache-2.0
"""How much of a table's ranking `legcf compress` keeps: `implicit`'s ALS-128, plain and degree-normalised.

    python benchmarks/bench_compress.py            # the table of docs/compress.md
    python benchmarks/bench_compress.py --data lastfm --sizes 500:4

Tables are fitted on the training pairs alone; compress sees nothing but the table. Prints Markdown, writes JSON.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # `implicit` asks for it: it has threads of its own

import numpy as np
import scipy.sparse as sp

from legcf import DataOptions, Dataset, compress, load_data
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.ranking import Ranking

SIZES = "2000:4,500:4"
TABLES = {
    "plain": {"alpha": 10.0, "regularization": 0.1, "degree_power": 0.0},
    "degree-normalised": {"alpha": 20.0, "regularization": 1.0, "degree_power": 0.5},
}


def fit_table(dataset: Dataset, width: int, alpha: float, regularization: float, degree_power: float) -> Any:
    """`implicit`'s ALS; a pair weighs 1 / (user degree · item degree)^power, rescaled to mean 1."""
    from implicit.als import AlternatingLeastSquares

    pairs = dataset.train.to_scipy()
    by_user, by_item = (np.maximum(degrees, 1.0) ** -degree_power for degrees in _degrees(dataset))
    weighted = sp.diags(by_user) @ pairs @ sp.diags(by_item)
    weighted.data *= alpha / weighted.data.mean()
    model = AlternatingLeastSquares(width, regularization=regularization, alpha=1.0, iterations=15, random_state=0)
    model.fit(weighted.tocsr().astype(np.float32), show_progress=False)
    return model


def _degrees(dataset: Dataset) -> tuple[Any, Any]:
    return dataset.train.user_degrees, dataset.train.item_degrees


def measure(users: Any, items: Any, dataset: Dataset) -> dict[str, float]:
    found = {}
    for part, truth in (("validation", dataset.validation), ("test", dataset.test)):
        metrics = evaluate(Ranking(users, items, dataset.train), truth, (20,), metrics=("recall", "ndcg"))
        found |= {f"{part} {name}": metrics[name] for name in ("recall@20", "ndcg@20")}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="gowalla")
    parser.add_argument("--protocol", default="legcf")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--sizes", default=SIZES, help="c:t, comma-separated")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--dtypes", default="int8")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "compress.json")
    options = parser.parse_args()

    dataset = load_data(options.data, DataOptions(protocol=options.protocol))
    lines: list[dict[str, Any]] = []
    print("| table | c | t | stored as | values | relative error | recall@20 | ndcg@20 | kept | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.tables.split(","):
        start = time.perf_counter()
        model = fit_table(dataset, options.width, **TABLES[name])
        users, items = model.user_factors, model.item_factors
        before = measure(users, items, dataset)
        lines.append({"table": name, "values": users.size + items.size, **before})
        lines[-1]["seconds"] = time.perf_counter() - start
        show(lines[-1], before)
        for dtype in options.dtypes.split(","):
            for c, t in (map(int, pair.split(":")) for pair in options.sizes.split(",")):
                for seed in range(options.seeds):
                    start = time.perf_counter()
                    coded = compress(users, items, c=c, t=t, seed=seed, dtype=dtype, keep_zero_rows=True)
                    seconds = time.perf_counter() - start
                    after = measure(coded.user_vectors, coded.item_vectors, dataset)
                    line = {"table": name, "c": c, "t": t, "dtype": dtype, "seed": seed, "values": coded.num_values}
                    line |= {"relative_error": coded.relative_error, "score_error": coded.score_error}
                    line |= {**after, "seconds": seconds}
                    line |= {f"kept {key}": after[key] / before[key] for key in before}
                    lines.append(line)
                    show(line, before)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"data": options.data, "protocol": dataset.protocol, "runs": lines}, indent=1))


def show(line: dict[str, Any], before: dict[str, float]) -> None:
    recall, ndcg = line["test recall@20"], line["test ndcg@20"]
    kept = f"{recall / before['test recall@20']:.1%} / {ndcg / before['test ndcg@20']:.1%}" if "c" in line else "–"
    error = f"{line['relative_error']:.3f}" if "c" in line else "–"
    print(
        f"| {line['table']} | {line.get('c', '–')} | {line.get('t', '–')} | {line.get('dtype', 'float32')} | "
        f"{line['values']:,} | {error} | {recall:.4f} | {ndcg:.4f} | {kept} | {line['seconds']:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
