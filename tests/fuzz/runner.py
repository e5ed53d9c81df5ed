# SPDX-License-Identifier: Apache-2.0
"""Run the cases of one target, each from a generator of its own."""

import resource
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from legcf.core import jit
from tests.fuzz.http import Http
from tests.fuzz.properties import AnyAsk, AnyFile, AnyLog, AnyTable
from tests.fuzz.targets import Events, ModelFile, Prepared, RunFolder, Tables, Target

# Each with its share of the time.
TARGETS: dict[str, tuple[type[Target], float]] = {
    "model-file": (ModelFile, 0.25),
    "run-folder": (RunFolder, 0.2),
    "tables": (Tables, 0.25),
    "prepared": (Prepared, 0.1),
    "http": (Http, 0.15),
    "events": (Events, 0.05),
    "any-file": (AnyFile, 0.05),
    "any-table": (AnyTable, 0.1),
    "any-log": (AnyLog, 0.05),
    "any-ask": (AnyAsk, 0.1),
}
MOST_MEGABYTES = 2000


def generator(seed: int, name: str, case: int) -> np.random.Generator:
    return np.random.default_rng([seed, list(TARGETS).index(name), case])


def run(name: str, seconds: float, seed: int, first: int, step: int, most: int = 10**9) -> tuple[int, int, list[str]]:
    """Run the cases first, first + step, … of one target; return their number, how many were accepted, and failures."""
    jit.silence()
    cases = taken = 0
    failures: list[str] = []
    before = _peak()
    with tempfile.TemporaryDirectory(prefix="legcf-fuzz-") as folder:
        target = TARGETS[name][0](Path(folder))
        try:
            end = np.inf  # until the first case has imported and compiled
            for case in range(first, first + most * step, step):
                if time.monotonic() > end or len(failures) >= 5:
                    break
                try:
                    taken += target.attempt(generator(seed, name, case))
                except Exception:
                    failures.append(f"{name} --seed {seed} --case {case}\n{traceback.format_exc()}")
                cases += target.cases
                end = min(end, time.monotonic() + seconds)
        finally:
            target.close()
    if _peak() > max(before, MOST_MEGABYTES):  # what ran in this process before may have had more
        failures.append(f"{name}: {_peak():.0f} MB at its peak, more than {MOST_MEGABYTES}")
    return cases, taken, failures


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
