# SPDX-License-Identifier: Apache-2.0
"""One rank with one thread against several with one thread each, on the same data.

    python benchmarks/bench_scale.py [--ranks 1 2] [--ready FOLDER | --users 40000 --items 20000 --pairs 2000000]
        [--parts factorisation training ...] [--out FILE]

Seconds and CPU seconds of the busiest rank for the parts that ranks share: the factorisation, the coding of items,
the steps of the codebook's training, item lists, evaluation, recommendations. Start, imports, compilation and reading
are not counted. Ratios are those of one rank to the most ranks; the one of CPU seconds also holds beside other work.
The data is a prepared folder, or generated. With --out the figures are added to a JSON file.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from planted_graph import planted

from legcf.assignment.dictionary import learn
from legcf.core import distributed, threads
from legcf.core.arrays import FloatArray
from legcf.data.catalogue.synthetic import Planted, write_folder
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.data.source import load_data, prepare_source
from legcf.evaluation.evaluate import evaluate
from legcf.factorisation.als import AlsSettings, factorise
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model

STEPS, FIRST_STEPS = 100, 10  # the first are not counted: they find memory
JUDGED = 20_000  # users of the evaluation and of the recommendations
PARTS = ("factorisation", "coding", "training", "lists", "evaluation", "recommendations")
WIDTH, CODES = 128, 512  # as items-only has it, and about half of its codebook
Figures = dict[str, dict[str, float]]


def measure(data: str, parts: tuple[str, ...], batch: int) -> None:
    """As one rank: print the figures of the busiest, if it is the first."""
    distributed.join()
    threads.use(1)
    figures_of(planted(400, 200, 4000, 20, np.random.default_rng(0)), PARTS, batch)  # compiles
    dataset = load_data(data, DataOptions())
    # Generated users are sorted by how much they have; a rank's range of them is to be like any other.
    dataset = dataset.of_users(np.random.default_rng(6).permutation(dataset.num_users))
    figures = figures_of(dataset, parts, batch)
    if distributed.is_first():
        shape = {"users": dataset.num_users, "items": dataset.num_items, "pairs": dataset.train.num_pairs}
        print(json.dumps({"data": shape, "parts": figures}))
    distributed.leave()


def figures_of(data: Dataset, parts: tuple[str, ...], batch_size: int) -> Figures:
    figures: Figures = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        distributed.all_reduce_sum(np.zeros(1))  # all begin together
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        used = time.process_time() - cpu
        distributed.all_reduce_sum(np.zeros(1))
        figures[name] = {"seconds": time.perf_counter() - wall, "cpu": distributed.all_reduce_max(used)}
        return result

    settings = AlsSettings(alpha=10.0, rounds=4)
    users, items = timed("factorisation", lambda: factorise(data.train, WIDTH, np.random.default_rng(1), settings))
    c = min(CODES, len(items) // 4)
    if "coding" in parts:
        timed("coding", lambda: learn(items, c, 2, np.random.default_rng(2), rounds=2))
    if "training" in parts:
        session = session_of(data, users, items, c, batch_size)
        batches = session.sampler_of(data.train, steps=FIRST_STEPS + STEPS).epoch(session.rng)
        for batch in islice(batches, FIRST_STEPS):
            session.step(batch)
        timed("training", lambda: [session.step(batch) for batch in batches])
    if "lists" in parts:
        by_item = data.train.transposed()
        timed("lists", lambda: solve(data.train, find_candidates(data.train, 32, by_item), (1.0,), 0.5, by_item))
    judging = np.sort(np.random.default_rng(5).permutation(data.num_users)[:JUDGED])
    ranking = Ranking(users, items, data.train)
    if "evaluation" in parts:
        timed("evaluation", lambda: evaluate(ranking, data.validation, users=judging))
    if "recommendations" in parts:
        timed("recommendations", lambda: recommended(ranking, judging))
    return figures


def recommended(ranking: Ranking, users: NDArray[np.int64]) -> None:
    """As `legcf recommend --output FOLDER` does it: the best items of a rank's share of the users, into its part."""
    mine = users[distributed.rank() :: distributed.world_size()]
    found, scores = rank(ranking, 20, mine, ranking.histories)
    frame = pl.DataFrame({"user": np.repeat(mine, 20), "item": found.ravel(), "score": scores.ravel()})
    with tempfile.TemporaryDirectory() as folder:
        frame.write_parquet(Path(folder) / "part.parquet")


def session_of(data: Dataset, users: FloatArray, items: FloatArray, c: int, batch_size: int) -> Session:
    """Training of a codebook that starts from the factorisation, as the preset items-only has it."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        np.savez(table, users=users, items=items)
        changes: dict[str, Any] = {"method": {"start": "table", "table": str(table), "c": c, "dim": WIDTH}}
        changes["training"] = {"batch_size": batch_size}
        config = resolve("legcf", preset="items-only", overrides=changes)
        model = build_model(config, data, np.random.default_rng(3), None)
    stages = METHODS["legcf"].recipe(config.method, config.training)
    return Session(model, data, config, stages, np.random.default_rng(4), TrainingOptions(quiet=True))


def run(count: int, data: str, parts: tuple[str, ...], batch: int) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = {"TORCHELASTIC_RUN_ID": "bench", "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, "--as-rank", "--ready", data, "--batch", str(batch), "--parts", *parts]
    started = [
        subprocess.Popen(
            command, env={**os.environ, **job, **one_thread, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(count)
    ]
    printed = [process.communicate(timeout=1800)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a rank of {count} failed")
    told: dict[str, Any] = json.loads(printed[0])
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--ready", help="a prepared folder")
    parser.add_argument("--users", type=int, default=40_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--batch", type=int, default=4096, help="pairs of a training step, over all ranks")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    parts = tuple(chosen.parts)
    if chosen.as_rank:
        measure(chosen.ready, parts, chosen.batch)
        return
    with tempfile.TemporaryDirectory() as folder:
        ready = chosen.ready or generated((chosen.users, chosen.items, chosen.pairs), Path(folder))
        found = {count: run(count, ready, parts, chosen.batch) for count in chosen.ranks}
    least, most = (found[count]["parts"] for count in (min(found), max(found)))
    ratios = {
        name: {kind: round(least[name][kind] / most[name][kind], 2) for kind in ("seconds", "cpu")} for name in least
    }
    for name in least:
        seconds = "  ".join(f"{count} × 1: {told['parts'][name]['seconds']:7.2f} s" for count, told in found.items())
        print(f"{name:>15}  {seconds}  ratio {ratios[name]['seconds']:.2f}, of CPU {ratios[name]['cpu']:.2f}")
    if chosen.out is not None:
        rows = json.loads(chosen.out.read_text()) if chosen.out.exists() else []
        rows.append(
            {
                **found[min(found)]["data"],
                "batch": chosen.batch,
                "ranks": {c: f["parts"] for c, f in found.items()},
                "ratios": ratios,
            }
        )
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n")


def generated(shape: tuple[int, int, int], folder: Path) -> str:
    write_folder(Planted(*shape), 0, folder / "big", quiet=True)
    prepare_source(str(folder / "big"), folder / "ready", DataOptions(), quiet=True)
    return str(folder / "ready")


if __name__ == "__main__":
    main()
