# SPDX-License-Identifier: Apache-2.0
"""One rank with one thread against several with one thread each, on the same generated data.

    python benchmarks/bench_scale.py [--ranks 1 2] [--users 40000 --items 20000 --pairs 2000000] [--out FILE]

Seconds and CPU seconds of the busiest rank for the parts that ranks share: the factorisation, the coding of items,
the steps of the codebook's training, item lists, evaluation. Ratios are those of one rank to the most ranks; the one
of CPU seconds also holds beside other work. With --out the figures are added to a JSON file.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from legcf import ranks, threads
from legcf.assignment.dictionary import learn
from legcf.data.interactions import Dataset
from legcf.data.synthetic import planted
from legcf.evaluation import evaluate
from legcf.factorisation.als import AlsSettings, factorise
from legcf.ranking.ranking import Ranking
from legcf.ranking.ridge import find_candidates, solve
from legcf.registry import METHODS, resolve
from legcf.runs import build_model
from legcf.training.loop import Session

STEPS = 60


def measure(shape: tuple[int, int, int]) -> None:
    """As one rank: print the figures of the busiest, if it is the first."""
    ranks.join()
    threads.use(1)
    figures_of(planted(400, 200, 4000, 20, np.random.default_rng(0)))  # compiles
    figures = figures_of(planted(*shape, 20, np.random.default_rng(0)))
    if ranks.is_first():
        print(json.dumps(figures))
    ranks.leave()


def figures_of(data: Dataset) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        ranks.total(np.zeros(1))  # all begin together
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        used = time.process_time() - cpu
        ranks.total(np.zeros(1))
        figures[name] = {"seconds": time.perf_counter() - wall, "cpu": ranks.most(used)}
        return result

    settings = AlsSettings(alpha=10.0, rounds=2)
    users, items = timed("factorisation", lambda: factorise(data.train, 64, np.random.default_rng(1), settings))
    c = min(512, len(items) // 4)
    timed("coding", lambda: learn(items, c, 2, np.random.default_rng(2), rounds=2))
    session = session_of(data, c)
    batches = session.sampler_of(data.train, steps=STEPS)
    timed("training", lambda: [session.step(batch) for batch in batches.epoch(ranks.own_generator(session.rng))])
    by_item = data.train.transposed()
    timed("lists", lambda: solve(data.train, find_candidates(data.train, 32, by_item), (1.0,), 0.5, by_item))
    judging = np.arange(min(data.num_users, 4000))
    timed("evaluation", lambda: evaluate(Ranking(users, items, data.train), data.validation, users=judging))
    return figures


def session_of(data: Dataset, c: int) -> Session:
    changes = {"method": {"als": {"alpha": 10.0, "rounds": 1}, "c": c}}
    config = resolve("legcf", preset="items-only", overrides=changes)
    model = build_model(config, data, np.random.default_rng(3), None)
    stages = METHODS["legcf"].recipe(config.method, config.training)
    return Session(model, data, config, stages, np.random.default_rng(4), quiet=True)


def run(count: int, shape: tuple[int, int, int]) -> dict[str, dict[str, float]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = {"TORCHELASTIC_RUN_ID": "bench", "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, "--as-rank", *(str(size) for size in shape)]
    started = [
        subprocess.Popen(
            command, env={**os.environ, **job, **one_thread, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(count)
    ]
    printed = [process.communicate(timeout=1800)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a rank of {count} failed")
    figures: dict[str, dict[str, float]] = json.loads(printed[0])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--users", type=int, default=40_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--as-rank", type=int, nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.as_rank is not None:
        measure(tuple(chosen.as_rank))
        return
    shape = (chosen.users, chosen.items, chosen.pairs)
    found = {count: run(count, shape) for count in chosen.ranks}
    least, most = found[min(found)], found[max(found)]
    ratios = {
        name: {kind: round(least[name][kind] / most[name][kind], 2) for kind in ("seconds", "cpu")} for name in least
    }
    for name in least:
        seconds = "  ".join(f"{count} × 1: {figures[name]['seconds']:7.2f} s" for count, figures in found.items())
        print(f"{name:>14}  {seconds}  ratio {ratios[name]['seconds']:.2f}, of CPU {ratios[name]['cpu']:.2f}")
    if chosen.out is not None:
        content = {"users, items, pairs": shape, "ranks": found, "ratios": ratios}
        chosen.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
