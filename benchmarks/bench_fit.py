# SPDX-License-Identifier: Apache-2.0
"""Time `legcf train` as a whole command, in multiples of implicit's ALS-128 fit of Gowalla in the same run.

    python benchmarks/bench_fit.py [--data ../shared/data] [--seeds 1 2 3] [--rows gowalla lastfm …]

Run it on quiet cores: both sides use all of them. A row has wall and CPU seconds, the peak memory of the command, and
its test recall@20 and NDCG@20. Rows are kept in benchmarks/results/bench_fit.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from legcf.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "bench_fit.json"
ROWS = {
    "gowalla": ("gowalla", "1.66MB"),
    "yelp2018": ("yelp2018", "2MB"),
    "ml-1m": ("ml-1m", "1MB"),
    "lastfm": ("lastfm", "400kB"),
    "lastfm-1MB": ("lastfm", "1MB"),
    "movielens-small": ("movielens-small", None),
}


def implicit_seconds(file: Path) -> float:
    """Return the seconds of implicit's ALS, 128 wide, 15 iterations, α = 20."""
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    lines = [[int(number) for number in line.split()] for line in file.read_text().splitlines()]
    users = np.repeat([line[0] for line in lines], [len(line) - 1 for line in lines])
    items = np.concatenate([line[1:] for line in lines])
    pairs = sp.csr_matrix((np.full(len(users), 20, np.float32), (users, items)))
    with threadpool_limits(1, "blas"):
        started = time.perf_counter()
        model = AlternatingLeastSquares(128, regularization=1.0, iterations=15, random_state=0)
        model.fit(pairs, show_progress=False)
        return time.perf_counter() - started


def whole_command(data: str, size: str | None, seed: int) -> dict[str, Any]:
    """Run `legcf train` in a process of its own, and return what it took and what it reached."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "legcf", "train", data, "--seed", str(seed), "--out", f"{folder}/run", "--quiet"]
        if size is not None:
            words += ["--protocol", "legcf", "--cold", "keep", "--bytes", size]
        # A process between measures the command alone: the peak of children is that of the largest so far.
        measured = subprocess.run(
            [sys.executable, __file__, "--measure", *words], capture_output=True, text=True, check=True
        )
        metrics = json.loads((Path(folder) / "run" / "metrics.json").read_text())
    test = {name: metrics["test"][name] for name in ("recall@20", "ndcg@20")}
    return {**json.loads(measured.stdout.splitlines()[-1]), **test, "selected": metrics.get("selected")}


def measure(words: list[str]) -> None:
    """Run a command and print what it took."""
    started = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}))


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[61, 62, 63])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    asked = parser.parse_args()
    whole_command(str(asked.data / "lastfm"), "400kB", 1)  # compiles what this machine has not compiled yet
    reference = implicit_seconds(asked.data / "gowalla" / "train.txt")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked.rows:
        folder, size = ROWS[name]
        data = str(asked.data / folder) if size is not None else folder
        for seed in asked.seeds:
            row = whole_command(data, size, seed)
            row |= {"implicit": reference, "ratio": row["wall"] / reference}
            rows[f"{name} {seed}"] = row
            print(name, seed, *(f"{key} {row[key]:.4g}" for key in ("wall", "cpu", "peak_mb", "ratio", "ndcg@20")))
            write_json(RESULTS, rows)


if __name__ == "__main__":
    main()
