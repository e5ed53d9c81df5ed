# SPDX-License-Identifier: Apache-2.0
"""From a million pairs to a hundred million: time and memory of every command, and whether time per pair stays flat.

    python benchmarks/bench_pairs.py [--pairs 1e6 1e7 1e8] [--work FOLDER] [--json FILE] [--plot FILE]

Generates, prepares, trains (preset fast, 48 bytes an item), exports, serves and recommends, each by its command in a
process of its own, and adds a row to the JSON file after every one. What the file has already is not done again, so a
stopped benchmark goes on. The folder needs 6 GB for a hundred million pairs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf_studies.report.figure import new_figure, plain, to_svg

RESULTS = Path(__file__).parent / "results"
# Of the same shape, up to the number of communities: 100 pairs a user, 200 an item.
SHAPES = {
    "1e6": ("--users", "10000", "--items", "5000", "--pairs", "1000000", "--communities", "2"),
    "1e7": ("--users", "100000", "--items", "50000", "--pairs", "10000000", "--communities", "10"),
    "1e8": ("--preset", "1e8"),
}
BYTES = {"1e6": "240KB", "1e7": "2.4MB", "1e8": "24MB"}
MOST_USERS, HISTORY, REQUESTS = 100_000, 50, 200
SHOWN = {"prepare": ("o", "-"), "train": ("s", "--"), "recommend": ("^", ":")}


def commands(size: str, work: Path) -> dict[str, list[str]]:
    big, ready, run, file = (str(work / f"{name}-{size}") for name in ("big", "ready", "run", "model"))
    users = work / f"users-{size}.txt"
    # Nothing is trained after the coding, so a basis for many steps would only take time.
    train = ["--preset", "fast", "--bytes", BYTES[size], "--set", "training.propagation=stepwise", "--no-baselines"]
    return {
        "generate": ["data", "generate", big, *SHAPES[size]],
        "prepare": ["data", "prepare", big, ready],
        "train": ["train", ready, *train, "--out", run],
        "export": ["export", "--no-evaluate", run, f"{file}.legcf"],
        "serve": ["serve", f"{file}.legcf", "--no-access-log"],
        "recommend": [
            "recommend",
            run,
            "--users",
            str(users),
            "--output",
            str(work / f"recommendations-{size}.parquet"),
        ],
    }


def measured(words: list[str]) -> dict[str, float]:
    """A command in a process of its own: seconds, CPU seconds, and the most memory it had."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "legcf", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"`legcf {' '.join(words)}` failed")
    return {"seconds": time.perf_counter() - begun, "cpu": _cpu(used), "peak_mb": used.ru_maxrss / 1024}


def _cpu(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def served(words: list[str], ready: Path) -> dict[str, float]:
    """Seconds until the file is served, CPU milliseconds of a request that brings about 50 items, and memory."""
    port = 8765
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen([sys.executable, "-m", "legcf", *words, "--port", str(port)], stdout=log, stderr=log)
    try:
        while True:
            try:
                _ask(port, {"items": [], "k": 1})
                break
            except OSError:
                if server.poll() is not None or time.perf_counter() - begun > 120:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.05)
        until = time.perf_counter() - begun
        train = load_data(ready, DataOptions()).train
        usual = np.flatnonzero(np.abs(train.user_degrees - HISTORY) <= 10)
        asked = [train.of(user).tolist() for user in np.random.default_rng(0).permutation(usual)[:REQUESTS]]
        process = psutil.Process(server.pid)
        before = sum(process.cpu_times()[:2])
        for items in asked:
            _ask(port, {"items": items, "k": 20})
        used = sum(process.cpu_times()[:2]) - before
        return {"seconds": until, "request_ms": 1000 * used / len(asked), "peak_mb": process.memory_info().rss / 2**20}
    finally:
        server.terminate()
        server.wait(30)


def _ask(port: int, request: dict[str, Any]) -> None:
    body = json.dumps({"requests": [request]}).encode()
    head = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/recommend", body, head)) as answer:
        answer.read()


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    figure = new_figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    for step, (marker, line) in SHOWN.items():
        found = [(row["pairs"], 1e6 * row["cpu"] / row["pairs"]) for row in rows if row["step"] == step]
        left.plot(*zip(*found, strict=True), marker=marker, linestyle=line, color="#1a1a1a", label=step)
    found = [(row["items"], row["request_ms"]) for row in rows if row["step"] == "serve"]
    right.plot(*zip(*found, strict=True), marker="D", linestyle="-.", color="#1a1a1a")
    titles = {"pairs": "CPU microseconds per pair", "items": "CPU ms of a request, HTTP included"}
    for axes, (across, title) in zip((left, right), titles.items(), strict=True):
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(across)
        axes.set_title(title, fontsize=9)
        plain(axes)
    left.legend(frameon=False)
    path.write_text(to_svg(figure), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "legcf-pairs")
    parser.add_argument("--json", type=Path, default=RESULTS / "pairs.json")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(options.json.read_text()) if options.json.exists() else []
    for size in options.pairs:
        for step, words in commands(size, options.work).items():
            if any((row["size"], row["step"]) == (size, step) for row in rows):
                continue
            row: dict[str, Any] = {"size": size, "pairs": int(float(size)), "step": step, "command": words}
            ready = options.work / f"ready-{size}"
            if step == "recommend":
                names = load_data(ready, DataOptions()).users.values[:MOST_USERS].tolist()
                (options.work / f"users-{size}.txt").write_text("\n".join(map(str, names)))
                row["users"] = len(names)
            row |= served(words, ready) if step == "serve" else measured(words)
            if step == "serve":
                row["items"] = load_data(ready, DataOptions()).num_items
            rows.append(row)
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
            shown = ", ".join(f"{name} {value:,.2f}" for name, value in row.items() if isinstance(value, float))
            print(f"{size} {step}: {shown}", flush=True)
    if options.plot is not None:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
