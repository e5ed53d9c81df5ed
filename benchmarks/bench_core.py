# SPDX-License-Identifier: Apache-2.0
"""What an epoch, an evaluation and an update cost, against their floors, all measured in one run.

    python benchmarks/bench_core.py [--data FOLDER] [--rounds N]

Gowalla from ../shared/data, or a synthetic graph of its size where that is missing. Every pair of times that makes a
ratio is measured in turns, and the fastest of each is taken, so that other work on the machine disturbs both alike.
Writes benchmarks/results/bench_core.json.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from planted_graph import planted
from rich.console import Console
from rich.table import Table

from legcf.assignment.solvers import SOLVERS
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.evaluation.evaluate import evaluate
from legcf.training.assess import peak_memory_mb
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model
from legcf.training.sampler import TrainingBatch

HERE = Path(__file__).resolve().parent
GOWALLA = HERE.parents[1] / "shared" / "data" / "gowalla"
SMALL_BATCH, LARGE_BATCH, NEGATIVES = 410, 8192, 5


@dataclass(frozen=True)
class Line:
    what: str
    value: float
    unit: str
    wanted: str = ""
    reached: bool | None = None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=GOWALLA, help="a LightGCN folder")
    options.add_argument("--rounds", type=int, default=5, help="how often each time is taken")
    given = options.parse_args()
    dataset = opened(given.data)
    lines = [
        *steps(dataset, given.rounds),
        *set_up(dataset, given.rounds),
        *evaluation(dataset, given.rounds),
        Line("peak memory of this benchmark", peak_memory_mb(), "MB", "≤ 2048", peak_memory_mb() <= 2048),
    ]
    show(dataset, lines)
    write(dataset, lines)


def opened(folder: Path) -> Dataset:
    if folder.is_dir():
        return load_data(folder, DataOptions(protocol="legcf"))
    return planted(29_858, 40_981, 1_027_370, 100, np.random.default_rng(0))


def session(dataset: Dataset, batch_size: int, propagation: str) -> Session:
    """The paper's sizes and loss without its penalty: c = 500, d = 128, t = 2, L = 3, BPR with 5 negatives."""
    training = {"batch_size": batch_size, "negatives": NEGATIVES, "propagation": propagation, "l2": 0.0}
    config = resolve(preset="paper", overrides={"method": {"start": "random"}, "training": training})
    rng = np.random.default_rng(0)
    model = build_model(config, dataset, rng, None)
    return Session(
        model,
        dataset,
        config,
        METHODS["legcf"].recipe(config.method, config.training),
        rng,
        TrainingOptions(quiet=True),
    )


def taking(running: Session, count: int) -> Callable[[], None]:
    """So many steps, sampling included."""

    def endless() -> Iterator[TrainingBatch]:
        while True:
            yield from running.sampler.epoch(running.rng)

    batches = endless()

    def several() -> None:
        for _ in range(count):
            running.step(next(batches))

    return several


def steps(dataset: Dataset, rounds: int) -> list[Line]:
    """Steps on the basis, step by step, and as bare dense products of the same shapes."""
    lines = []
    for size, count in ((SMALL_BATCH, 40), (LARGE_BATCH, 3)):
        running = session(dataset, size, "basis")
        rows = len(next(running.sampler.epoch(running.rng)).entities)
        works = [taking(running, count), repeated(bare_products(rows, running), count)]
        if size == SMALL_BATCH:
            works.append(taking(session(dataset, size, "stepwise"), 1))
        basis, floor, *stepwise = fastest(rounds, *works)
        basis, floor = basis / count, floor / count
        per_epoch, name = running.sampler.steps_per_epoch, f"{size} pairs × {NEGATIVES}"
        lines += [
            Line(f"rows of a batch, {name}", rows, "rows"),
            Line(f"step on the basis, {name}", 1e3 * basis, "ms"),
            Line(f"bare dense products, {name}", 1e3 * floor, "ms"),
            Line(f"share of the dense floor, {name}", 100 * floor / basis, "%", "≥ 50", floor >= basis / 2),
            Line(f"epoch on the basis, {name}", basis * per_epoch, "s"),
        ]
        for slow in stepwise:
            lines += [
                Line(f"step by step, {name}", 1e3 * slow, "ms"),
                Line(f"epoch step by step, {name}", slow * per_epoch, "s"),
                Line("basis against step by step", slow / basis, "×", "≥ 50", slow >= 50 * basis),
            ]
    return lines


def bare_products(rows: int, running: Session) -> Callable[[], None]:
    """H = M Θ and dΘ = Mᵀ dH for `rows` rows, with nothing around them."""
    codebook = running.model.layer.get_parameter("codebook").detach()
    basis, gradient = torch.rand(rows, len(codebook)), torch.rand(rows, codebook.shape[1])
    vectors, back = torch.empty_like(gradient), torch.empty_like(codebook)

    def products() -> None:
        torch.mm(basis, codebook, out=vectors)
        torch.mm(basis.T, gradient, out=back)

    return products


def set_up(dataset: Dataset, rounds: int) -> list[Line]:
    """Graph and basis, and an assignment update with each solver."""
    running = session(dataset, LARGE_BATCH, "basis")
    model, settings = running.model, running.config
    build = fastest(min(rounds, 3), model.rebuild)[0]
    full, meta = model.entity_vectors(), model.meta_vectors()
    assert meta is not None
    t, cap = settings.method.t, settings.training.memory_cap_mb
    lines = [Line("graph and basis", build, "s")]
    for name, solver in SOLVERS.items():
        solved = fastest(min(rounds, 3), partial(solver, full, meta, t, cap))[0]
        lines.append(Line(f"assignment update, {name}, with graph and basis", solved + build, "s"))
    return lines


def evaluation(dataset: Dataset, rounds: int) -> list[Line]:
    """Full ranking with all metrics against the score product alone, in the same blocks."""
    ranking = session(dataset, LARGE_BATCH, "stepwise").model.ranking()
    users, items = ranking.users, ranking.items
    chosen = np.flatnonzero(dataset.test.user_degrees > 0)
    rows = max(1, 64 * 2**20 // (4 * len(items)))
    left, across = torch.from_numpy(users[chosen]), torch.from_numpy(items).T
    out = torch.empty(rows, len(items))

    def product() -> None:
        for start in range(0, len(left), rows):
            block = left[start : start + rows]
            torch.mm(block, across, out=out[: len(block)])

    whole, bare = fastest(rounds, lambda: evaluate(ranking, dataset.test), product)
    return [
        Line("evaluation of all users", whole, "s"),
        Line("bare score product", bare, "s"),
        Line("evaluation against the product", whole / bare, "×", "≤ 2.5", whole <= 2.5 * bare),
    ]


def repeated(work: Callable[[], Any], count: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(count):
            work()

    return several


def fastest(rounds: int, *works: Callable[[], Any]) -> list[float]:
    """The least time of each, taken in turns after one round that does not count (compilation, first touch)."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 1):
        for work, taken in zip(works, times, strict=True):
            started = time.perf_counter()
            work()
            if number:
                taken.append(time.perf_counter() - started)
    return [min(taken) for taken in times]


def show(dataset: Dataset, lines: list[Line]) -> None:
    table = Table(
        title=f"{dataset.name}: {dataset.num_users:,} users, {dataset.num_items:,} items", title_justify="left"
    )
    for column, side in (("", "left"), ("measured", "right"), ("", "left"), ("wanted", "right"), ("", "left")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    for line in lines:
        mark = "" if line.reached is None else "reached" if line.reached else "missed"
        table.add_row(line.what, f"{line.value:,.2f}", line.unit, line.wanted, mark)
    Console(width=120).print(table)


def write(dataset: Dataset, lines: list[Line]) -> None:
    machine = {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    content = {"dataset": dataset.name, "machine": machine, "lines": [asdict(line) for line in lines]}
    path = HERE / "results" / "bench_core.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
