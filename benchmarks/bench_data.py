# SPDX-License-Identifier: Apache-2.0
"""What preparing data costs, against polars scanning the same bytes, all measured in one run.

    python benchmarks/bench_data.py [--data FOLDER] [--rounds N] [--pairs N]

Gowalla from ../shared/data, or a synthetic graph of its size where that is missing. Times that make a ratio are taken
in turns, and the fastest of each counts. With `--pairs 100000000` the synthetic run at the end is the large one of
docs/data.md. Writes benchmarks/results/bench_data.json.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from legcf.data.catalogue.synthetic import PRESETS, Planted, write_csv, write_folder
from legcf.data.source import load_data, prepare_source

HERE = Path(__file__).resolve().parent
GOWALLA = HERE.parents[1] / "shared" / "data" / "gowalla"


def fastest(rounds: int, work: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each piece of work, measured in turns."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds + 1):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def small(folder: Path, scratch: Path, rounds: int) -> dict[str, float]:
    files = [folder / "train.txt", folder / "test.txt"]
    out = scratch / "prepared"
    lines = pl.scan_lines(files)
    numbers = lines.select(pl.col("line").str.split(" ").explode().cast(pl.Int64))

    def prepare() -> None:
        prepare_source(folder, out, quiet=True)

    seconds = fastest(
        rounds,
        {
            "polars: lines": lambda: lines.collect(),
            "polars: lines and numbers": lambda: numbers.collect(),
            "load": lambda: load_data(folder),
            "prepare": prepare,
            "open prepared": lambda: load_data(out),
        },
    )
    return seconds


def large(pairs: int, scratch: Path) -> list[dict[str, Any]]:
    """Generate and prepare in processes of their own, so that each has its own peak of memory."""
    base = PRESETS["1e8"]
    scale = pairs / base.num_pairs
    shape = Planted(max(int(base.num_users * scale), 100), max(int(base.num_items * scale), 100), pairs, 20)
    if pairs == base.num_pairs:
        shape = base
    rows = []
    for name, source in (("LightGCN text", scratch / "graph"), ("CSV", scratch / "graph.csv")):
        write = write_csv if source.suffix == ".csv" else write_folder
        write(shape, 0, source, quiet=True)
        size = sum(file.stat().st_size for file in ([source] if source.is_file() else source.iterdir()))
        rows.append(
            {"format": name, "pairs": pairs, "megabytes": size / 1e6, **prepared_apart(source, scratch / "out")}
        )
        shutil.rmtree(scratch / "out")
    return rows


def prepared_apart(source: Path, out: Path) -> dict[str, float]:
    code = "import sys; from pathlib import Path; from legcf.data.source import prepare_source\n"
    code += "prepare_source(sys.argv[1], Path(sys.argv[2]), quiet=True)"
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, str(source), str(out)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"Preparing {source} failed.")
    seconds = time.perf_counter() - start
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": usage.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=GOWALLA, help="a LightGCN folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=2_000_000, help="pairs of the synthetic run")
    parser.add_argument("--scratch", type=Path, default=None, help="where to put what is generated")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        scratch = Path(name)
        folder = arguments.data
        if not folder.is_dir():
            folder = scratch / "like-gowalla"
            write_folder(Planted(29_858, 40_981, 1_027_370), 0, folder, quiet=True)
        seconds = small(folder, scratch, arguments.rounds)
        table = Table(title=f"{folder.name}: from LightGCN text, fastest of {arguments.rounds}", title_justify="left")
        for column in ("", "ms", "× lines", "× lines and numbers"):
            table.add_column(column, justify="left" if not column else "right")
        for row, value in seconds.items():
            ratios = [value / seconds[base] for base in ("polars: lines", "polars: lines and numbers")]
            table.add_row(row, f"{value * 1000:.1f}", *(f"{ratio:.2f}" for ratio in ratios))
        Console().print(table)
        rows = large(arguments.pairs, scratch)
        table = Table(title=f"prepare, {arguments.pairs:,} synthetic pairs, a process each", title_justify="left")
        for column in ("format", "MB", "seconds", "CPU seconds", "pairs/s", "peak MiB"):
            table.add_column(column, justify="left" if column == "format" else "right")
        for row_ in rows:
            rate = row_["pairs"] / row_["seconds"]
            figures = (f"{row_[key]:,.1f}" for key in ("megabytes", "seconds", "cpu_seconds"))
            table.add_row(row_["format"], *figures, f"{rate:,.0f}", f"{row_['peak_mib']:,.0f}")
        Console().print(table)
    results = {
        "data": folder.name,
        "machine": {"platform": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()},
        "seconds": seconds,
        "prepare_over_scan": seconds["prepare"] / seconds["polars: lines and numbers"],
        "prepare_over_lines": seconds["prepare"] / seconds["polars: lines"],
        "large": rows,
        "peak_mib_of_this_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    target = HERE / "results" / "bench_data.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
