# SPDX-License-Identifier: Apache-2.0
"""A run with one thread and with two, by itself and beside busy loops: waiting for each other must not cost more than
it brings.

    python benchmarks/bench_threads.py [--busy 2] [--data movielens-small] [--repeats 2]

Prints seconds of training and the ratio of two threads to one; below 1.2 is what is wanted beside other work.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTINGS = {
    "paper": ("--preset", "paper", "--epochs", "2"),
    "full": ("--method", "full", "--epochs", "5"),
    "default": (),
}


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Other work: loops that never wait."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds(data: str, settings: tuple[str, ...], threads: int) -> float:
    """Of everything but imports and reading."""
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        words = ["train", data, "--out", str(Path(folder) / "run"), "--json", *settings]
        command = [sys.executable, "-m", "legcf", *words, "--set", f"training.threads={threads}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=free)
    return float(json.loads(done.stdout)["seconds"]["this_session"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="movielens-small")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="busy loops beside the run")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    chosen = parser.parse_args()
    for name in chosen.settings:
        seconds(chosen.data, SETTINGS[name], 1)  # compiles what is not compiled yet
        for loops in sorted({0, chosen.busy}):
            with busy(loops):
                one, two = (
                    min(seconds(chosen.data, SETTINGS[name], threads) for _ in range(chosen.repeats))
                    for threads in (1, 2)
                )
            print(
                f"{name:>8}, {loops} busy loops: 1 thread {one:6.1f} s, 2 threads {two:6.1f} s, ratio {two / one:.2f}"
            )


if __name__ == "__main__":
    main()
