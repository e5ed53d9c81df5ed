# SPDX-License-Identifier: Apache-2.0
"""Whole model files by their plain commands: accuracy, true bytes and needs of one artefact each.

    python benchmarks/one_file.py [--rows gowalla-1.66MB …] [--seeds 11 12 13] [--data ../shared/data]

Each row is `legcf train DATA --protocol P --cold keep --bytes SIZE --seed SEED --out RUN` and `legcf export RUN FILE`.
It is kept in benchmarks/results/one-file.json, so that a stopped run goes on where it was; `--table` prints the rows of
docs/results.md from that file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "one-file.json"
ComparisonRow = dict[str, Any]

ROWS = {
    f"{data}-{size}" if protocol == "legcf" else f"{data}-{protocol}-{size}": (data, protocol, size)
    for data, protocol, size in (
        ("lastfm", "legcf", "400kB"),
        ("lastfm", "legcf", "1MB"),
        ("ml-1m", "legcf", "1MB"),
        ("gowalla", "legcf", "1.66MB"),
        ("gowalla", "legcf", "2MB"),
        ("gowalla", "legcf", "4MB"),
        ("gowalla", "lightgcn", "4MB"),
        ("gowalla", "lightgcn", "8MB"),
        ("yelp2018", "lightgcn", "8MB"),
    )
}


def model_file(data: Path, protocol: str, seed: int, size: str) -> ComparisonRow | None:
    """A model file as users make it; None where it cannot be so small."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [str(data), "--protocol", protocol, "--cold", "keep", "--bytes", size, "--seed", str(seed)]
        started = time.perf_counter()
        done = _legcf("train", *words, "--out", str(run), "--quiet", "--json")
        if done.returncode == 2 and "too small" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(done.stderr)
        seconds = time.perf_counter() - started
        return {**described(run), "seconds": seconds}


def described(run: Path) -> ComparisonRow:
    """Accuracy of a run, the bytes of the file that is exported from it, and what it is made of."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.legcf"
        _legcf("export", str(run), str(file)).check_returncode()
        size = file.stat().st_size
    metrics = json.loads((run / "metrics.json").read_text())
    config = json.loads((run / "model.json").read_text())["config"]
    return {
        **{name: metrics["test"][name] for name in ("recall@20", "ndcg@20")},
        "bytes": size,
        "vectors": told(config),
        "list_entries": metrics.get("list_entries", 0),
        **({"chosen_on": metrics["chosen_on"]["validation"]["ndcg@20"]} if "chosen_on" in metrics else {}),
        "ranking": {name: value for name, value in config["ranking"].items() if name.startswith("list_")},
    }


def told(config: dict[str, Any]) -> str:
    """What the vectors are made of, in a few words."""
    method = config["method"]
    if method["name"] == "legcf":
        trained = "codes" if config["training"]["epochs"] == 0 else "trained codes"
        return f"{trained}, c = {method['c']}, t = {method['t']}"
    how = f"λ = {method['als']['regularisation']:g}" if method["initial"] == "als" else "singular vectors"
    return f"{method['initial']} table, {method['dim']} wide, {how}, {config['ranking']['bits']} bits"


def _legcf(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "legcf", *words], capture_output=True, text=True, env=dict(os.environ))


def table(known: dict[str, ComparisonRow]) -> str:
    """Means over seeds, with the seeds they are of."""
    lines = [
        "| data, protocol | `--bytes` | seeds | file, bytes | vectors (first seed) | R@20 | N@20 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (data, protocol, size) in ROWS.items():
        found = [row for key, row in known.items() if key.rpartition(" ")[0] == name]
        if found:
            seeds = ", ".join(str(row["seed"]) for row in found)
            largest = max(row["bytes"] for row in found)
            recall, ndcg = (mean(row[metric] for row in found) for metric in ("recall@20", "ndcg@20"))
            cells = (f"{data}, {protocol}", size, seeds, f"{largest:,}", found[0]["vectors"])
            lines.append(f"| {' | '.join(cells)} | **{recall:.4f}** | **{ndcg:.4f}** |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[11, 12, 13])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--table", action="store_true", help="print what there is, train nothing")
    asked = parser.parse_args()
    known: dict[str, ComparisonRow] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in () if asked.table else asked.seeds:
        for name in asked.rows:
            key = f"{name} {seed}"
            if key not in known:
                data, protocol, size = ROWS[name]
                row = model_file(asked.data / data, protocol, seed, size)
                assert row is not None, f"{size} cannot hold {data}"
                # Read again: rows may have been added meanwhile.
                known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                known[key] = {"data": data, "protocol": protocol, "size": size, "seed": seed, **row}
                write(RESULTS, json.dumps(dict(sorted(known.items())), indent=1))
                print(json.dumps(known[key]), flush=True)
    print(table(known))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(text + "\n")
    beside.replace(path)


if __name__ == "__main__":
    main()
