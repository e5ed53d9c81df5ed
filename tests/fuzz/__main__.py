# SPDX-License-Identifier: Apache-2.0
"""Run fuzzers for a while: `python -m tests.fuzz [NAME …] [--seconds 300] [--seed 0] [--jobs 2] [--case N]`.

Prints how many cases each had and how many of them were accepted. A case that ends in anything but an answer or a
sentence is printed with its number, and the exit code is 1; `NAME --case N` runs it again.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.fuzz.runner import TARGETS, run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    names = options.names or list(TARGETS)
    os.environ.setdefault("LEGCF_CACHE", tempfile.mkdtemp(prefix="legcf-fuzz-cache-"))
    if options.case is not None:
        print(run(names[0], 10**6, options.seed, options.case, 1, most=1))
        return 0
    shares = sum(TARGETS[name][1] for name in names)
    total, failures = 0, []
    print(f"{'target':<12}{'cases':>9}{'accepted':>10}{'failed':>8}", flush=True)
    for name in names:
        seconds = options.seconds * TARGETS[name][1] / shares
        with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            running = [pool.submit(run, name, seconds, options.seed, job, options.jobs) for job in range(options.jobs)]
            try:
                results = [one.result() for one in running]
            except BrokenProcessPool:
                results = [(0, 0, [f"{name}: a process ended without a word"])]
        cases, taken = sum(one[0] for one in results), sum(one[1] for one in results)
        wrong = [failure for one in results for failure in one[2]]
        print(f"{name:<12}{cases:>9,}{taken:>10,}{len(wrong):>8}", flush=True)
        total, failures = total + cases, failures + wrong
    print(f"{'all':<12}{total:>9,}")
    print(*failures, sep="\n", end="" if not failures else "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
