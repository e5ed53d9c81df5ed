# SPDX-License-Identifier: Apache-2.0
"""Measure a model file on a device: legcf.js in Chromium and Node and legcf.h in C, beside Python's Scorer.

    python benchmarks/bench_device.py gowalla.legcf [--users 2000] [--output benchmarks/results/bench_device.json]

Every user that is asked for gets its 20 best items from each reader, and items and order are compared. Times are
medians of single requests, in one run on one machine; what counts is their ratio to the Scorer's.
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
  const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
  return { load_ms: middle(loads), request_ms: middle(times), items };
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
const report = { memory_above_file_bytes: memory() - before, items_held: model.numItems };
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
        report = measured(folder, options.users)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(report, indent=2))
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=2) + "\n")


def measured(folder: Path, users: int) -> dict[str, Any]:
    python, expected = of_scorer(folder / "model.legcf", users)
    readers = {"node": in_node(folder, users), "chromium": in_chromium(folder, users), "c": in_c(folder, len(expected))}
    report: dict[str, Any] = {
        "file_bytes": (folder / "model.legcf").stat().st_size,
        "users": len(expected),
        "machine": platform.machine(),
        "scorer": python,
    }
    for name, found in readers.items():
        items = found.pop("items")
        found.pop("items_held", None)
        differing = sum(mine != theirs for mine, theirs in zip(expected, items, strict=True))
        ratio = found["request_ms"] / python["request_ms"]
        report[name] = {**found, "ratio_to_scorer": ratio, "users_with_another_order": differing}
    return report


def of_scorer(path: Path, users: int) -> tuple[dict[str, float], list[list[str]]]:
    start = time.perf_counter()
    scorer = Scorer.load(path).prepare()
    load, times, items = time.perf_counter() - start, [], []
    assert scorer.model.users is not None
    for user in np.asarray(scorer.model.users.values)[:users].tolist():
        start = time.perf_counter()
        found = scorer.recommend(Request(user=user))
        times.append(time.perf_counter() - start)
        items.append([str(one.id) for one in found])
    return {"load_ms": 1e3 * load, "request_ms": 1e3 * statistics.median(times)}, items


def in_node(folder: Path, users: int) -> dict[str, Any]:
    (folder / "node.js").write_text(IN_NODE)
    command = ["node", "--expose-gc", "node.js", str(users)]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    return found


def in_c(folder: Path, users: int) -> dict[str, Any]:
    """Build the program of legcf.h and ask it for users; its mean is that of the processor's clock."""
    program, model = folder / "legcf-c", folder / "model.legcf"
    command = ["cc", "-std=c99", "-O3", "-o", program, READER.with_name("legcf-c.c"), "-lm"]
    subprocess.run(command, check=True)
    asked = "".join(f"u 20 0 0 {user}\n" for user in range(users))
    run = subprocess.run([program, "--answers", model], input=asked, check=True, capture_output=True, text=True)
    start = time.perf_counter()
    subprocess.run([program, "--answers", model], input="", check=True, capture_output=True, text=True)
    load = time.perf_counter() - start
    words = run.stderr.replace(",", "").split()
    ids = Scorer.load(model).model.items
    items = [
        [str(one) for one in ids.external([int(word) for word in line.split()[1::2]])]
        for line in run.stdout.splitlines()
    ]
    memory = int(words[words.index("bytes") - 1])
    return {
        "load_ms": 1e3 * load,
        "request_ms": float(words[words.index("ms") - 1]),
        "memory_above_file_bytes": memory,
        "items": items,
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
