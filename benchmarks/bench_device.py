# SPDX-License-Identifier: Apache-2.0
"""Measure a model file on a device: legcf.js in Chromium and Node and legcf.h in C, beside Python's Scorer.

    python benchmarks/bench_device.py gowalla.legcf [--users 2000] [--repeats 5] [--output bench_device.json]

Every user that is asked for gets its 20 best items from each reader, and items and order are compared. Readers take
turns. Of each turn there are the median and the mean of single requests, and of these the median and the least over
turns; what counts is the ratio to the Scorer's, median to median and mean to mean. Times of C are compared with the
Scorer's processor time in its own thread, all others on the wall's clock.
"""

import argparse
import functools
import http.server
import json
import platform
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import legcf
from legcf.scoring.scorer import Request, Scorer

READER = Path(legcf.__file__).parent / "device" / "legcf.js"
MEASURE = """
export const measure = async (Legcf, bytes, users) => {
  const loads = [];
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    await Legcf.load(bytes);
    loads.push(performance.now() - start);
  }
  const model = await Legcf.load(bytes);
  const items = [], times = [];
  for (let user = 0; user < Math.min(users, model.numUsers); user++) {
    const start = performance.now(), found = model.recommend({ user: model.users.at(user) });
    times.push(performance.now() - start);
    items.push(found.map(({ id }) => String(id)));
  }
  const load_ms = loads.toSorted((a, b) => a - b)[loads.length >> 1];
  return { load_ms, times, items };
};
"""
IN_NODE = """
import { readFileSync } from "node:fs";
import { measure } from "./measure.js";
import { Legcf } from "./legcf.js";
const memory = () => {
  gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
const bytes = readFileSync("model.legcf"), before = memory(), model = await Legcf.load(bytes);
const report = { memory_above_file_bytes: memory() - before };
globalThis.held = model;
console.log(JSON.stringify({ ...report, ...await measure(Legcf, bytes, Number(process.argv[2])) }));
"""
IN_CHROMIUM = """async (users) => {
    const { measure } = await import("./measure.js"), { Legcf } = await import("./legcf.js");
    return measure(Legcf, globalThis.bytes, users);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    folder = Path(f"/dev/shm/legcf-bench-{time.time_ns()}")
    folder.mkdir()
    try:
        for name, source in (("legcf.js", READER), ("model.legcf", options.model)):
            shutil.copy(source, folder / name)
        (folder / "measure.js").write_text(MEASURE)
        (folder / "index.html").write_text("<!doctype html><link rel=icon href=data:,><title>bench</title>")
        (folder / "package.json").write_text('{"type": "module"}')
        report = measured(folder, options.users, options.repeats)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(report, indent=2))
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


def measured(folder: Path, users: int, repeats: int) -> dict[str, Any]:
    scorer = Scorer.load(folder / "model.legcf").prepare()
    readers: dict[str, Callable[[], dict[str, Any]]] = {
        "scorer": lambda: of_scorer(scorer, folder, users),
        "c": lambda: in_c(folder, scorer, users),
        "node": lambda: in_node(folder, users),
        "chromium": lambda: in_chromium(folder, users),
    }
    build_c(folder)
    turns = [{name: read() for name, read in readers.items()} for _ in range(repeats)]
    expected = turns[0]["scorer"]["items"]
    report: dict[str, Any] = {
        "file_bytes": (folder / "model.legcf").stat().st_size,
        "users": len(expected),
        "repeats": repeats,
        "machine": platform.machine(),
    }
    cpu = summary([turn["scorer"]["cpu_times"] for turn in turns])
    for name in readers:
        found = [turn[name] for turn in turns]
        orders = [zip(expected, one["items"], strict=True) for one in found]
        own = summary([one["times"] for one in found])
        its = cpu if name == "c" else report.get("scorer", own)  # C99 has no other clock than the processor's
        report[name] = {
            "load_ms": statistics.median(one["load_ms"] for one in found),
            **{key: found[0][key] for key in found[0].keys() & {"memory_above_file_bytes"}},
            **own,
            **{f"{key}_to_scorer": value / its[key] for key, value in own.items()},
            "users_with_another_order": max(sum(mine != theirs for mine, theirs in order) for order in orders),
        }
    report["scorer"]["cpu"] = cpu
    return report


def summary(turns: list[list[float]]) -> dict[str, float]:
    """Return median and mean of a request in milliseconds, each in the middle turn and in the quickest."""
    medians, means = map(statistics.median, turns), map(statistics.fmean, turns)
    return {
        f"{kind}_ms{suffix}": value
        for kind, values in (("median", sorted(medians)), ("mean", sorted(means)))
        for suffix, value in (("", statistics.median(values)), ("_least", values[0]))
    }


def of_scorer(scorer: Scorer, folder: Path, users: int) -> dict[str, Any]:
    start = time.perf_counter()
    Scorer.load(folder / "model.legcf").prepare()
    load = 1e3 * (time.perf_counter() - start)
    times, cpu_times, items = [], [], []
    assert scorer.model.users is not None
    for user in np.asarray(scorer.model.users.values)[:users].tolist():
        start, busy = time.perf_counter(), time.thread_time()
        found = scorer.recommend(Request(user=user))
        cpu_times.append(1e3 * (time.thread_time() - busy))
        times.append(1e3 * (time.perf_counter() - start))
        items.append([str(one.id) for one in found])
    return {"load_ms": load, "times": times, "cpu_times": cpu_times, "items": items}


def in_node(folder: Path, users: int) -> dict[str, Any]:
    (folder / "node.js").write_text(IN_NODE)
    command = ["node", "--expose-gc", "node.js", str(users)]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    return found


def build_c(folder: Path) -> None:
    command = ["cc", "-std=c99", "-O3", "-o", str(folder / "legcf-c"), str(READER.with_name("legcf-c.c")), "-lm"]
    subprocess.run(command, check=True)


def in_c(folder: Path, scorer: Scorer, users: int) -> dict[str, Any]:
    """Ask the program of legcf.h for users; its times are those of the processor's clock."""
    assert scorer.model.users is not None
    command = [str(folder / "legcf-c"), "--times", str(folder / "model.legcf")]
    asked = "".join(f"u 20 0 0 {user}\n" for user in range(min(users, len(scorer.model.users))))
    start = time.perf_counter()
    subprocess.run(command, input="", check=True, capture_output=True, text=True)
    load = time.perf_counter() - start
    run = subprocess.run(command, input=asked, check=True, capture_output=True, text=True)
    *times, last = run.stderr.splitlines()
    words = last.split()
    positions = [[int(word) for word in line.split()[1::2]] for line in run.stdout.splitlines()]
    return {
        "load_ms": 1e3 * load,
        "times": [float(microseconds) / 1e3 for microseconds in times],
        "memory_above_file_bytes": int(words[words.index("bytes") - 1]),
        "items": [[str(one) for one in scorer.model.items.external(row)] for row in positions],
    }


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None: ...


def in_chromium(folder: Path, users: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    switches = [
        "--no-sandbox",
        "--headless",
        "--disable-gpu",
    ]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=switches)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.evaluate("async () => { globalThis.bytes = await (await fetch('model.legcf')).arrayBuffer(); }")
        page.evaluate("async () => { await (await import('./legcf.js')).Legcf.load(globalThis.bytes); }")
        before = _heap_bytes(page)
        page.evaluate(
            "async () => { globalThis.held = await (await import('./legcf.js')).Legcf.load(globalThis.bytes); }"
        )
        page.evaluate("() => { globalThis.held.recommend({ user: globalThis.held.users.at(0) }); }")
        held = _heap_bytes(page) - before
        found: dict[str, Any] = {**page.evaluate(IN_CHROMIUM, users), "memory_above_file_bytes": held}
        browser.close()
    server.shutdown()
    return found


def _heap_bytes(page: Any) -> float:
    """Return what the page's scripts hold, arrays included."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0))


if __name__ == "__main__":
    main()
