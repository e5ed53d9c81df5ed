# SPDX-License-Identifier: Apache-2.0
"""Measure what `legcf train --seconds N` makes of N seconds, and how long the whole command takes.

    python benchmarks/bench_seconds.py [--data ../shared/data] [--rows lastfm …]

Run it on quiet cores. Rows are kept in benchmarks/results/seconds.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from legcf.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "seconds.json"
ROWS: dict[str, tuple[str | None, tuple[float, ...]]] = {
    "lastfm": (None, (2, 5, 10)),
    "gowalla": ("1.66MB", (8, 15, 30, 60)),
}


def whole_command(data: Path, size: str | None, seconds: float) -> dict[str, Any]:
    """Run the command in a process of its own; return what it took, what it kept and what that reaches."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [sys.executable, "-m", "legcf", "train", str(data), "--protocol", "legcf", "--cold", "keep"]
        words += ["--seconds", str(seconds), "--seed", "61", "--out", str(run), "--quiet"]
        words += [] if size is None else ["--bytes", size]
        started = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.perf_counter() - started
        metrics = json.loads((run / "metrics.json").read_text())
    test = {name: metrics["test"][name] for name in ("recall@20", "ndcg@20")}
    trained = bool((metrics.get("best_epoch") or {}).get("epoch")) and metrics["method"] == "legcf"
    return {"wall": wall, **test, "kept": metrics["within"]["kept"], "method": metrics["method"], "trained": trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    asked = parser.parse_args()
    whole_command(asked.data / "lastfm", None, 10)  # reads from disk and compiles what this machine has not yet
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    for name in asked.rows:
        size, times = ROWS[name]
        for seconds in times:
            row = whole_command(asked.data / name, size, seconds)
            rows[f"{name} {seconds}"] = row
            print(name, seconds, *(f"{key} {row[key]:.4g}" for key in ("wall", "recall@20", "ndcg@20")), row["kept"])
            write_json(RESULTS, {"cores": os.cpu_count(), "rows": rows})


if __name__ == "__main__":
    main()
