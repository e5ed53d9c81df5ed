# SPDX-License-Identifier: Apache-2.0
"""Everything a user could pick instead, on the same split, machine and day: `python benchmarks/peers DATA…`.

Each project has an environment of its own with pinned versions, each run a process of its own with a time limit. Ranked
lists come back and are judged by our evaluator. What is done stays done: the same command goes on where it was stopped.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import environments
import numpy as np
import report
from roster import PROJECTS, ROWS, ComparisonRow
from runners import common

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="folders of LightGCN text, or anything that legcf reads")
    parser.add_argument("--work", type=Path, default=Path("runs/peers"), help="splits and records")
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--protocol", default="legcf")
    parser.add_argument("--limit", type=float, default=300, help="most seconds of a run")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--only", nargs="*", default=[], help="rows by name, such as implicit-als-128, or by a part of it"
    )
    parser.add_argument("--again", action="store_true", help="run what is done once more")
    parser.add_argument("--page", type=Path, default=Path("docs/peers.md"))
    parser.add_argument("--note", default="", help="what a reader of the page has to know of these runs")
    options = parser.parse_args()
    for data in options.data:
        name = Path(data).name
        split = exported(data, name, options)
        parts = common.load(split)
        for row in chosen(options.only):
            record(row, name, split, parts, options)
            report.write(options.page, options.work, options.note)  # there however early it is stopped
    print(f"Written: {options.page}")


def chosen(words: list[str]) -> list[ComparisonRow]:
    """All rows, or those named; a word that is no row's name stands for every row whose name holds it."""
    names = {row.key for row in ROWS}
    return [row for row in ROWS if not words or any(row.key == w or (w not in names and w in row.key) for w in words)]


def exported(data: str, name: str, options: argparse.Namespace) -> Path:
    split = options.work / name / "split"
    if not split.exists():
        split.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "legcf", "data", "export", data, str(split)]
        subprocess.run([*command, "--protocol", options.protocol, "--cold", "keep"], check=True)
    return split


def record(row: ComparisonRow, name: str, split: Path, parts: dict[str, Any], options: argparse.Namespace) -> None:
    """Run one row, unless that is done already, and keep what it has to say."""
    path = options.work / name / f"{row.key}.json"
    if path.exists() and not options.again:
        return
    items = parts["train"].shape[1]
    if row.most_items is not None and items > row.most_items:
        found: dict[str, Any] = {"failed": f"not tried: a matrix of {items:,} by {items:,} items"}
    else:
        found = run(row, split, parts, options)
    project = PROJECTS[row.project]
    found |= {"project": project.label, "label": row.label, "version": environments.version(row.project)}
    found |= {"date": time.strftime("%Y-%m-%d"), "threads": options.threads, "limit": options.limit}
    path.write_text(json.dumps(found, indent=1) + "\n")
    said = found.get("failed") or f"recall@20 {found['recall@20']:.4f}, ndcg@20 {found['ndcg@20']:.4f}"
    print(f"{name}: {project.label} {row.label}: {said}, {found.get('fit_seconds', 0):.1f} s", flush=True)


def run(row: ComparisonRow, split: Path, parts: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    project = PROJECTS[row.project]
    python = environments.ready(row.project, options.environments)
    out = split.parent / f"{row.key}.out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    settings = row.settings
    if row.project == "recbole":
        settings = {**row.settings, "seconds": 0.6 * options.limit}  # then it ends with the best epoch so far
    command = [python, HERE / "runners" / project.runner, split, row.model, json.dumps(settings), out]
    threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "MKL", "NUMBA")}
    blas = {"OPENBLAS_NUM_THREADS": "1" if row.project == "implicit" else str(options.threads)}  # as it asks for
    environment = {**os.environ, **threads, **blas, "PEERS_STARTED": str(time.time())}
    try:
        with open(out / "log", "w") as log:
            code = limited([str(word) for word in command], environment, log, options.limit)
        if code is None:
            return {"failed": f"not done after {options.limit:.0f} s"}
        if code != 0:
            lines = (out / "log").read_text().strip().splitlines() or [f"exit code {code}"]
            return {"failed": lines[-1][:160]}
        ranked = np.load(out / "ranked.npz")
        return {**json.loads((out / "record.json").read_text()), **judged(ranked["items"], ranked["users"], parts)}
    finally:
        shutil.rmtree(out / "model", ignore_errors=True)


def limited(command: list[str], environment: dict[str, str], log: Any, seconds: float) -> int | None:
    """The exit code; None if the time was over, and then nothing that it started goes on."""
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def judged(ranked: np.ndarray, users: np.ndarray, parts: dict[str, Any]) -> dict[str, float]:
    """Recall and NDCG at 20 by our evaluator, over every user with test pairs."""
    from legcf.data.interactions import Interactions
    from legcf.evaluation.evaluate import find_hits
    from legcf.evaluation.metrics import METRICS

    pairs = parts["test"].tocoo()
    truth = Interactions.from_pairs(pairs.row, pairs.col, *parts["test"].shape)
    hits = find_hits(ranked.astype(np.int32), users, truth)
    return {
        f"{name}@20": float(METRICS[name](hits, truth.user_degrees[users], 20).mean()) for name in ("recall", "ndcg")
    }


if __name__ == "__main__":
    main()
