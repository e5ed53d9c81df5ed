# SPDX-License-Identifier: Apache-2.0
"""Measure how soon and in how little memory short commands answer, each in a process of its own.

    python benchmarks/bench_start.py [--data ../shared/data/gowalla] [--times 5]

A row has the median of wall and CPU seconds, the peak memory, and which of the heavy packages were imported. The run is
that of the preset `fast`. Rows are kept in benchmarks/results/start.json.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from legcf.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "start.json"
HEAVY = ("torch", "numba", "polars", "scipy")
_NAMED = """
import atexit, sys
atexit.register(lambda: print("imported", *({heavy} & sys.modules.keys()), file=sys.stderr))
sys.argv[0] = "legcf"
from legcf.cli.app import main
main()
"""
OPTIONS = ("--protocol", "legcf", "--cold", "keep")
COMPLETION = {"_LEGCF_COMPLETE": "complete_bash", "COMP_WORDS": "legcf rec", "COMP_CWORD": "1"}


def commands(run: Path, file: Path, bare: Path, data: Path) -> dict[str, tuple[Sequence[str], Mapping[str, str]]]:
    """Return what is measured: words, and variables of the environment."""
    return {
        "recommend RUN": (["recommend", str(run), "--user", "5"], {}),
        "recommend FILE": (["recommend", str(file), "--user", "5"], {}),
        "info RUN": (["info", str(run)], {}),
        "info FILE": (["info", str(file)], {}),
        "evaluate --help": (["evaluate", "--help"], {}),
        "completion": ([], COMPLETION),
        "evaluate FILE": (["evaluate", str(bare), "--data", str(data), *OPTIONS], {}),
    }


def measure(words: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Run a command once; return seconds, peak memory and which heavy packages it imported."""
    code = _NAMED.format(heavy=set(HEAVY))
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE if variables else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: {said}")
    imported = next(line for line in said.splitlines() if line.startswith("imported")).split()[1:]
    figures = {"wall": time.perf_counter() - started, "cpu": used.ru_utime + used.ru_stime}
    return {**figures, "peak_mb": used.ru_maxrss / 1024, "imported": sorted(imported)}


def measured(words: Sequence[str], variables: Mapping[str, str], times: int) -> dict[str, Any]:
    """Return the medians of several runs of a command, after one that is not counted."""
    runs = [measure(words, variables) for _ in range(times + 1)][1:]
    medians = {name: statistics.median(run[name] for run in runs) for name in ("wall", "cpu", "peak_mb")}
    return {**medians, "imported": runs[0]["imported"]}


def trained(data: Path, folder: Path) -> tuple[Path, Path, Path]:
    """Train `fast` by commands; return its run, a model file with the histories of its users, and one without."""
    run, file, bare = folder / "run", folder / "model.legcf", folder / "bare.legcf"
    _legcf("train", data, *OPTIONS, "--preset", "fast", "--out", run)
    _legcf("export", run, file, "--users", "history")
    _legcf("export", run, bare, "--users", "none")
    return run, file, bare


def _legcf(*words: object) -> None:
    command = [sys.executable, "-m", "legcf", *map(str, words), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/gowalla"))
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = {}
        made = trained(asked.data, Path(folder))
        for name, (words, variables) in commands(*made, asked.data).items():
            rows[name] = measured(words, variables, asked.times)
            figures = (f"{key} {rows[name][key]:.3g}" for key in ("wall", "cpu", "peak_mb"))
            print(name, *figures, *rows[name]["imported"])
    write_json(RESULTS, {"data": asked.data.name, "cores": os.cpu_count(), "rows": rows})


if __name__ == "__main__":
    main()
