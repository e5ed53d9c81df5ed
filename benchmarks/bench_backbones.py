# SPDX-License-Identifier: Apache-2.0
"""The sparse product, a training step and their growth with the graph, each against what others offer, in one run.

    python benchmarks/bench_backbones.py [--data FOLDER] [--rounds N] [--part product|step|recbole|growth …]

`product` compares our propagation step with torch's sparse COO and CSR and with scipy, on Gowalla at width 64.
`recbole` trains RecBole's LightGCN and ours (`--method full --dim 64`, three layers, BPR with one negative, Adam) for
some steps of equal batches; RecBole lives in an environment of its own that this benchmark makes. `growth`
times a step on generated graphs of 10^5 to 10^7 edges and draws it. Times that make a ratio are taken in turns, and
the fastest counts. Writes benchmarks/results/backbones.json and docs/images/growth.svg.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from planted_graph import planted
from rich.console import Console
from rich.table import Table

from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.graph.adjacency import bipartite, normalised
from legcf.graph.operator import Operator
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model

HERE = Path(__file__).resolve().parent
GOWALLA = HERE.parents[1] / "shared" / "data" / "gowalla"
RECBOLE = HERE.parent / ".venv-recbole"
RECBOLE_NEEDS = ["torch==2.13.0", "recbole==1.2.1", "numpy==1.26.4", "scipy==1.13.1", "pandas==2.2.3"]
WIDTH, BATCH = 64, 2048
WANTED = 4.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=GOWALLA, help="a LightGCN folder")
    options.add_argument("--rounds", type=int, default=10, help="how often each time is taken")
    options.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be given again")
    given = options.parse_args()
    dataset = opened(given.data)
    results: dict[str, Any] = {}
    for part in given.part or PARTS:
        results[part] = PARTS[part](dataset, given.rounds)
        show(part, results[part])
    write(dataset, results)


def opened(folder: Path) -> Dataset:
    if folder.is_dir():
        return load_data(folder, DataOptions(protocol="lightgcn"))
    return planted(29_858, 40_981, 1_027_370, 100, np.random.default_rng(0))


# The parts ----------------------------------------------------------------------------------------------------------


def product(dataset: Dataset, rounds: int) -> dict[str, float]:
    """One product of the normalised graph with a matrix of width 64, in milliseconds."""
    matrix = normalised(bipartite(dataset.train))
    operator = Operator(matrix, symmetric=True)
    dense = np.random.default_rng(0).random((matrix.shape[0], WIDTH), dtype=np.float32)
    wanted = np.sort(np.random.default_rng(0).choice(matrix.shape[0], 3 * BATCH, replace=False))
    out, tensor = np.empty_like(dense), torch.from_numpy(dense)
    coordinates = matrix.tocoo()
    coo = torch.sparse_coo_tensor(
        np.vstack([coordinates.row, coordinates.col]), coordinates.data, matrix.shape, check_invariants=False
    ).coalesce()
    csr = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr),
        torch.from_numpy(matrix.indices),
        torch.from_numpy(matrix.data),
        matrix.shape,
        check_invariants=False,
    )
    times = fastest(
        {
            "ours": lambda: operator.times(dense, out),
            "ours, a batch's rows": lambda: operator.times_at(wanted, dense),
            "torch COO": lambda: torch.sparse.mm(coo, tensor),
            "torch CSR": lambda: csr @ tensor,
            "scipy": lambda: matrix @ dense,
        },
        rounds,
    )
    result = {f"{name}, ms": 1e3 * seconds for name, seconds in times.items()}
    result |= {f"{name} / ours": times[name] / times["ours"] for name in ("torch COO", "torch CSR", "scipy")}
    result["gigabytes read a second"] = matrix.nnz * WIDTH * 4 / times["ours"] / 1e9
    return result


def step(dataset: Dataset, rounds: int) -> dict[str, float]:
    """A training step of the full table, and where its time goes."""
    running = session(dataset, BATCH)
    batches = list_of(running, rounds + 2)
    for batch in batches[:2]:
        running.step(batch)
    batch, entities = batches[2], torch.from_numpy(batches[2].entities)
    vectors = running.model.encode(entities).detach().requires_grad_()
    times = fastest(
        {
            "whole step": lambda: running.step(batch),
            "forward": lambda: running.model.encode(entities),
            "Adam": running.optimiser.step,
            "loss": lambda: running.loss(vectors, batch, 1.0).backward(),
        },
        rounds,
    )
    return {f"{name}, ms": 1e3 * seconds for name, seconds in times.items()}


def recbole(dataset: Dataset, rounds: int) -> dict[str, float]:
    """A whole training step against RecBole's LightGCN: same data, width, layers, batch, threads."""
    python = recbole_python()
    folder = RECBOLE / "data" / "legcf"
    folder.mkdir(parents=True, exist_ok=True)
    pairs = np.column_stack([dataset.train.users(), dataset.train.items])
    np.savetxt(folder / "legcf.inter", pairs, "%d", "\t", header="user_id:token\titem_id:token", comments="")
    threads = str(torch.get_num_threads())
    command = [
        str(python),
        str(HERE / "recbole_step.py"),
        str(folder.parent),
        str(WIDTH),
        str(BATCH),
        str(rounds),
        threads,
    ]
    theirs: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )
    running = session(dataset, BATCH)
    batches = iter(list_of(running, rounds + 2))
    running.step(next(batches))
    times = []
    for batch in batches:
        started = time.perf_counter()
        running.step(batch)
        times.append(time.perf_counter() - started)
    ours = float(np.median(times))
    ratio = theirs["seconds"] / ours
    return {
        "RecBole, ms per step": 1e3 * theirs["seconds"],
        "ours, ms per step": 1e3 * ours,
        "RecBole / ours": ratio,
        f"at least {WANTED:.0f} times": float(ratio >= WANTED),
    }


def growth(dataset: Dataset, rounds: int) -> dict[str, float]:
    """Seconds of a step from 10^5 to 10^7 edges at a mean degree as Gowalla's, and the exponent of their growth."""
    result = {}
    sizes = [10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7]
    seconds = []
    for edges in sizes:
        grown = planted(edges // 27, edges // 20, edges, 50, np.random.default_rng(0))
        running = session(grown, BATCH)
        batch = list_of(running, 1)[0]
        running.step(batch)
        seconds.append(fastest({"step": lambda: running.step(batch)}, max(3, rounds // 3))["step"])  # noqa: B023
        result[f"{grown.train.num_pairs:,} training pairs, ms per step"] = 1e3 * seconds[-1]
        sizes[sizes.index(edges)] = grown.train.num_pairs
    slope = float(np.polyfit(np.log(sizes[1:]), np.log(seconds[1:]), 1)[0])
    result["exponent of the growth (1 is linear)"] = slope
    draw(sizes, seconds, slope)
    return result


PARTS: dict[str, Callable[[Dataset, int], dict[str, float]]] = {
    "product": product,
    "step": step,
    "recbole": recbole,
    "growth": growth,
}

# What they share ----------------------------------------------------------------------------------------------------


def session(dataset: Dataset, batch_size: int) -> Session:
    config = resolve(
        "full", preset="official", overrides={"method": {"dim": WIDTH}, "training": {"batch_size": batch_size}}
    )
    rng = np.random.default_rng(0)
    model = build_model(config, dataset, rng, None)
    return Session(
        model, dataset, config, METHODS["full"].recipe(config.method, config.training), rng, TrainingOptions(quiet=True)
    )


def list_of(running: Session, count: int) -> list[Any]:
    epoch = running.sampler.epoch(running.rng)
    return [next(epoch) for _ in range(count)]


def fastest(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The fastest of each, taken in turns."""
    best = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def recbole_python() -> Path:
    """Python of the environment that holds RecBole; made on first use."""
    python = RECBOLE / "bin" / "python"
    if not (RECBOLE / "ready").exists():
        Console().print(f"Making {RECBOLE} …")
        venv.create(RECBOLE, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *RECBOLE_NEEDS], check=True)
        (RECBOLE / "ready").touch()
    return python


def draw(sizes: list[int], seconds: list[float], slope: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.4))
    axes.loglog(sizes, seconds, "ko-", label="measured")
    line = seconds[-1] * np.array(sizes) / sizes[-1]
    axes.loglog(sizes, line, "k--", linewidth=0.8, label="linear")
    axes.set(
        xlabel="training pairs",
        ylabel="seconds per step",
        title=f"Full table of 64, three layers: exponent {slope:.2f}",
    )
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(HERE.parent / "docs" / "images" / "growth.svg")


def show(part: str, lines: dict[str, float]) -> None:
    table = Table(title=part, title_justify="left")
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in lines.items():
        table.add_row(name, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")
    Console().print(table)


def write(dataset: Dataset, results: dict[str, Any]) -> None:
    path = HERE / "results" / "backbones.json"
    before = json.loads(path.read_text())["results"] if path.exists() else {}
    content = {
        "dataset": dataset.name,
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "torch": torch.__version__,
        },
        "results": before | results,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
