# SPDX-License-Identifier: Apache-2.0
"""Serving, measured in one run: batches against `implicit`, HTTP, accuracy against size, folded-in users.

    python benchmarks/bench_serving.py                       # batches and HTTP, on factors of implicit's ALS-128
    python benchmarks/bench_serving.py --run RUN             # the same and accuracy against size, on a trained run
    python benchmarks/bench_serving.py --part foldin         # trains twice, with and without some of the users

Every ratio comes from one run on one machine. `--json FILE` keeps the numbers, `--plot FILE` draws accuracy and size.
"""

import argparse
import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit threads by itself and asks for this

import numpy as np
from http_load import beside_batches, load, quantiles, serving, stacks
from request_times import rules, side_by_side, tables

from legcf.scoring.scorer import Scorer

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla"
PARTS = ("batch", "http", "accuracy", "foldin", "rules", "tables")
ALONE = {"batch", "http", "rules", "tables"}  # need nothing but a file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(DATA), help="a LightGCN folder, for ALS factors and for foldin")
    parser.add_argument("--run", type=Path, help="a run of `legcf train`; without it ALS-128 stands in")
    parser.add_argument("--model", type=Path, help="an exported file, where neither accuracy nor foldin is asked for")
    parser.add_argument("--against", type=Path, help="another file, to compare the time of a request with")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to measure [all but foldin]")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--terms", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--epochs", type=int, default=4, help="of each stage, for foldin")
    parser.add_argument(
        "--set", action="append", default=[], help="settings of training for foldin, e.g. method.start=als"
    )
    parser.add_argument("--preset", default="items-only", help="for foldin")
    parser.add_argument("--backbone", help="for foldin [the preset's own]")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, form, folder = options.child
        measure = {"implicit": child_implicit, "legcf": child_legcf}[name]
        print(json.dumps(measure(Path(folder), form == "written")))
        return
    parts = options.part or [part for part in PARTS if part != "foldin" and (part != "accuracy" or options.run)]
    report: dict[str, Any] = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="legcf-bench-") as folder:
        if options.model and set(parts) <= ALONE:
            shutil.copy(options.model, Path(folder) / "model.legcf")
            take_vectors(Path(folder))
        elif {"batch", "http", "accuracy", "rules"} & set(parts):
            trained, dataset = load_trained(options)
            prepare(trained, dataset, Path(folder), report)
        if "batch" in parts:
            report["batch"] = batch(Path(folder))
        if "http" in parts:
            report["http"] = http(Path(folder) / "model.legcf", options)
        if "rules" in parts:
            report["rules"] = rules(Path(folder) / "model.legcf")
            for name, times in report["rules"]["times_of_no_rule"].items():
                say(f"rules, {name}", f"{report['rules']['ms'][name]:.2f} ms, {times:.2f}×")
        if "tables" in parts:
            report["tables"] = tables()
            for row in report["tables"]:
                say("table request", ", ".join(f"{name} {value:.4g}" for name, value in row.items()))
        if options.against:
            report["request_ms"] = side_by_side(Path(folder) / "model.legcf", options.against)
            say("request", ", ".join(f"{name} {value:.4g}" for name, value in report["request_ms"].items()))
        if "accuracy" in parts:
            report["accuracy"] = accuracy_by_size(trained, dataset, options)
        if "foldin" in parts:
            report["foldin"] = held_out(options)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot and "accuracy" in report:
        plot(report, options.plot)


def load_trained(options: argparse.Namespace) -> tuple[Any, Any]:
    if options.run:
        from legcf.recommender import Recommender

        model = Recommender.load(options.run)
        return model.trained, model.dataset()
    from implicit.als import AlternatingLeastSquares

    from legcf import DataOptions, load_data
    from legcf.ranking.ranking import Ranking

    dataset = load_data(options.data, DataOptions(protocol="legcf"))
    als = AlternatingLeastSquares(factors=128, iterations=10, random_state=0)
    als.fit(dataset.train.to_scipy(), show_progress=False)
    trained = SimpleNamespace(
        users=dataset.users,
        items=dataset.items,
        titles=dataset.titles,
        ranking=Ranking(als.user_factors, als.item_factors, dataset.train),
        known=dataset.train,
        card={"name": dataset.name, "method": "implicit's ALS-128"},
        encoder=None,
    )
    return trained, dataset


def prepare(trained: Any, dataset: Any, folder: Path, report: dict[str, Any]) -> None:
    """The model file, and the same vectors (the first 128 columns) as plain arrays for implicit."""
    from legcf.export.build import build
    from legcf.export.options import ExportOptions

    start = time.perf_counter()
    model = build(trained, ExportOptions(t=4), dataset.validation)
    report["export_seconds"] = time.perf_counter() - start
    report["parts"] = model.save(folder / "model.legcf")
    say("export", f"{report['export_seconds']:.1f} s; bytes: {report['parts']}")
    save_vectors(folder, model, trained.ranking.users, trained.ranking.items, trained.ranking.histories)


def take_vectors(folder: Path) -> None:
    """The vectors of a file, its users' too, as plain arrays for implicit."""
    scorer = Scorer.load(folder / "model.legcf")
    assert scorer.model.history is not None, "a file without users: export with --users history"
    histories = scorer.model.history.all()
    rows = scorer.model.user_rows
    users = scorer.solver.vectors(histories) if rows is None else rows.vectors(slice(None))
    save_vectors(folder, scorer.model, users, scorer.model.item_rows.vectors(slice(None)), histories)


def save_vectors(folder: Path, model: Any, users: Any, items: Any, histories: Any) -> None:
    toy_like(model).save(folder / "toy.legcf")
    np.save(folder / "users.npy", np.ascontiguousarray(users[:, :128], dtype=np.float32))
    np.save(folder / "items.npy", np.ascontiguousarray(items[:, :128], dtype=np.float32))
    np.save(folder / "indptr.npy", histories.indptr.astype(np.int32))
    np.save(folder / "indices.npy", histories.items)


def toy_like(model: Any) -> Any:
    """128 users and items with the parts that the model has, to load the libraries with."""
    from legcf.data.ids import IdMap
    from legcf.data.interactions import Interactions
    from legcf.modelfile.histories import PackedHistories
    from legcf.modelfile.served_model import ServedModel
    from legcf.ranking.item_lists.lists import ItemLists
    from legcf.ranking.tables.embedding_table import CodebookTable
    from legcf.ranking.tables.pooling import Pooling

    rows = CodebookTable(np.zeros((128, 4), np.uint16), np.ones((128, 4), np.float32), np.ones((4, 4), np.float32))
    ids, ones = IdMap.consecutive(128), np.ones(128, np.uint8)
    pairs = Interactions(np.arange(129), np.zeros(128, np.int32), 128)
    return ServedModel(
        ids,
        rows,
        ones,
        ids,
        None if model.user_rows is None else rows,
        history=PackedHistories.of(pairs),
        pooling=None if model.pooling is None else Pooling(0.5, 0.5, ones),
        lists=None if model.lists is None else ItemLists(pairs, np.ones(128, np.float32)),
        dtype="int8",
    )


def batch(folder: Path) -> dict[str, Any]:
    """Top-20 for all users, seen items left out, each in a process of its own.

    Kept: all results stand in arrays at the end; the second of two passes is timed. Written: a block of users after the
    other, each written to a file as it comes.
    """
    results: dict[str, Any] = {}
    for form in ("kept", "written"):
        entries = {}
        for name in ("implicit", "legcf"):
            command = [sys.executable, __file__, "--child", name, form, str(folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            entry = entries[name] = json.loads(done.stdout.splitlines()[-1])
            say(
                f"batch {name}, results {form}",
                f"{entry['users_per_second']:,.0f} users/s, peak memory {entry['growth_mb']:.1f} MB above the "
                f"{entry['base_mb']:.0f} MB of the process with its libraries",
            )
        ours, theirs = entries["legcf"], entries["implicit"]
        ratios = {
            "throughput_ratio": ours["users_per_second"] / theirs["users_per_second"],
            "memory_ratio": ours["growth_mb"] / theirs["growth_mb"],
        }
        say(
            f"batch, results {form}",
            f"{ratios['throughput_ratio']:.1f}× the throughput at {ratios['memory_ratio']:.3f} of the memory",
        )
        results[form] = {**entries, **ratios}
    return results


def child_implicit(folder: Path, written: bool) -> dict[str, float]:
    import scipy.sparse as sp
    from implicit.als import AlternatingLeastSquares

    toy = AlternatingLeastSquares(factors=4)
    toy.user_factors = toy.item_factors = np.ones((4, 4), np.float32)
    toy.recommend(np.arange(4), sp.csr_matrix((4, 4), dtype=np.float32), N=2)
    base = settled_mb()
    model = AlternatingLeastSquares(factors=128)
    model.user_factors, model.item_factors = np.load(folder / "users.npy"), np.load(folder / "items.npy")
    indices = np.load(folder / "indices.npy")
    shape = (len(model.user_factors), len(model.item_factors))
    seen = sp.csr_matrix((np.ones(len(indices), np.float32), indices, np.load(folder / "indptr.npy")), shape=shape)
    users = np.arange(shape[0])

    def in_blocks() -> None:
        blocks = (users[start : start + 128] for start in range(0, shape[0], 128))
        write(folder, (model.recommend(block, seen[block], N=20) for block in blocks))

    return timed(in_blocks if written else lambda: model.recommend(users, seen, N=20), shape[0], base)


def child_legcf(folder: Path, written: bool) -> dict[str, float]:
    Scorer.load(folder / "toy.legcf").recommend_all(2, compiled=True)
    base = settled_mb()
    scorer = Scorer.load(folder / "model.legcf")
    assert scorer.model.users is not None
    users = len(scorer.model.users)

    def in_blocks() -> None:
        write(folder, ((items, scores) for _, items, scores in scorer.recommend_blocks(20, compiled=True)))

    return timed(in_blocks if written else lambda: scorer.recommend_all(20, compiled=True), users, base)


def write(folder: Path, blocks: Iterable[tuple[Any, Any]]) -> None:
    with open(folder / "results", "wb") as file:
        for items, scores in blocks:
            file.write(np.ascontiguousarray(items).data)
            file.write(np.ascontiguousarray(scores).data)


def settled_mb() -> float:
    """Resident memory without what the allocator keeps for later: else new arrays might hide in old, free room."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return memory_mb("VmRSS")


def timed(call: Any, users: int, base: float) -> dict[str, float]:
    call()
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    peak = memory_mb("VmHWM")
    return {
        "seconds": seconds,
        "users_per_second": users / seconds,
        "base_mb": base,
        "peak_mb": peak,
        "growth_mb": peak - base,
    }


def memory_mb(name: str, process: int | str = "self") -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def http(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Start-up, single requests alone and beside batches, servers side by side, a load while the file is replaced."""
    users = Scorer.load(path).model.users
    assert users is not None
    ids = users.values.tolist()
    start = time.perf_counter()
    with serving(path, "--workers", str(options.workers)) as (port, process):
        result: dict[str, Any] = {"start_seconds": time.perf_counter() - start}
        result["resident_mb"] = memory_mb("VmRSS", process.pid)
        result["load"] = asyncio.run(loaded(port, ids, options, path))
        result["resident_after_mb"] = memory_mb("VmRSS", process.pid)
    result["exit_code"] = process.returncode
    say("http", f"ready in {result['start_seconds']:.2f} s, {result['resident_mb']:.0f} MB resident")
    full = result["load"]
    say(
        "http load",
        f"{full['requests']:,} requests over {full['connections']} connections: {full['failed']} failed, "
        f"{full['per_second']:,.0f}/s, p50 {full['p50_ms']:.1f} ms, p99 {full['p99_ms']:.1f} ms, "
        f"file replaced {full['swaps']} times",
    )
    result["stacks"] = stacks(path, ids, options.connections)
    for name, entry in result["stacks"].items():
        say(f"http {name}", f"{entry['per_second']:,.0f}/s, {entry['cpu_ms']:.2f} ms of CPU each, nothing cached")
    result["batches"] = beside_batches(path, ids)
    for name in ("alone", "beside"):
        entry = result["batches"][name]
        say(f"http single, {name} batches", f"p50 {entry['p50_ms']:.2f} ms, p99 {entry['p99_ms']:.2f} ms")
    say("http batches", f"p99 beside them is {result['batches']['p99_ratio']:.1f}× that of single requests alone")
    return result


async def loaded(port: int, users: list[Any], options: argparse.Namespace, swapped: Path) -> dict[str, Any]:
    """The whole load, while the file is replaced again and again."""
    swaps = 0

    async def swap() -> None:
        nonlocal swaps
        content = swapped.read_bytes()
        while True:
            await asyncio.sleep(3)
            copy = swapped.with_suffix(".new")
            copy.write_bytes(content)
            os.replace(copy, swapped)
            swaps += 1

    swapping = asyncio.create_task(swap())
    result = await load(port, users, options.connections, 0, options.requests)
    swapping.cancel()
    times = result.pop("times")
    return {**result, **quantiles(times), "connections": options.connections, "swaps": swaps}


def accuracy_by_size(trained: Any, dataset: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy kept against the bytes of the vectors alone (no ids, titles, histories), and items only."""
    from legcf.export.accuracy import headline
    from legcf.export.build import build, served_ranking
    from legcf.export.options import ExportOptions

    before = headline(trained.ranking, dataset.test)
    rows = []
    say("accuracy", f"trained model: recall@20 {before['recall@20']:.4f}, ndcg@20 {before['ndcg@20']:.4f}")
    for users in ("coded", "none"):
        for dtype in ("int8", "float16"):
            for t in options.terms if users == "coded" else [4]:
                model = build(
                    trained,
                    ExportOptions(t=t, dtype=dtype, users=users, history=False, titles=False),
                    dataset.validation,
                )
                with tempfile.NamedTemporaryFile() as file:
                    parts = model.save(Path(file.name))
                after = headline(served_ranking(model, dataset.train, quiet=True), dataset.test)
                size = parts["vectors"] + parts["header"]
                row = {"t": t, "dtype": dtype, "users": users, "bytes": size, **after}
                rows.append(row)
                kept = [after[key] / before[key] for key in ("recall@20", "ndcg@20")]
                say(
                    f"users {users}, t={t}, {dtype}",
                    f"{size:,} bytes, recall@20 {after['recall@20']:.4f} ({kept[0]:.1%}), "
                    f"ndcg@20 {after['ndcg@20']:.4f} ({kept[1]:.1%})",
                )
    return {"before": before, "rows": rows}


def held_out(options: argparse.Namespace) -> dict[str, Any]:
    """Train with and without every twentieth user; fold the left-out ones in and compare them with themselves."""
    from legcf import DataOptions, load_data
    from legcf.core.config import merged, parse_assignments
    from legcf.data.interactions import Interactions
    from legcf.evaluation.evaluate import evaluate
    from legcf.export.build import build, served_ranking
    from legcf.export.options import ExportOptions
    from legcf.training.loop import TrainingOptions
    from legcf.training.registry import resolve
    from legcf.training.run import train

    dataset = load_data(options.data, DataOptions(protocol="legcf"))
    overrides = merged({"training": {"epochs": options.epochs}}, parse_assignments(options.set))
    config = resolve("legcf", options.backbone, options.preset, 0, overrides)
    held = np.arange(0, dataset.num_users, 20)
    users = dataset.train.users()
    remain = ~np.isin(users, held)
    shape = (dataset.num_users, dataset.num_items)
    smaller = Interactions.from_pairs(users[remain], dataset.train.items[remain], *shape)
    known = ~np.isin(dataset.validation.users(), held)
    pairs = dataset.validation.users()[known], dataset.validation.items[known]
    without = dataclasses.replace(dataset, train=smaller, validation=Interactions.from_pairs(*pairs, *shape))
    result: dict[str, Any] = {"held_out_users": len(held)}
    ks, metrics = (20,), ("recall", "ndcg")
    result["trained_on"] = evaluate(
        train(dataset, config, TrainingOptions(quiet=True)).ranking, dataset.test, ks, held, metrics
    )
    say("foldin trained on", describe(result["trained_on"]))
    part = train(without, config, TrainingOptions(quiet=True))
    for form in ("full", "coded"):
        model = build(part, ExportOptions(t=4, format=form), without.validation)
        cold_users = dataclasses.replace(model, users=None, user_rows=None, history=None)
        result[form] = evaluate(served_ranking(cold_users, dataset.train, quiet=True), dataset.test, ks, held, metrics)
        kept = {key: result[form][key] / result["trained_on"][key] for key in ("recall@20", "ndcg@20")}
        result[f"{form}_kept"] = kept
        say(f"foldin {form}", f"{describe(result[form])}, kept {kept}, {model.fold_in}")
    return result


def describe(metrics: dict[str, float]) -> str:
    return f"recall@20 {metrics['recall@20']:.4f}, ndcg@20 {metrics['ndcg@20']:.4f}"


def plot(report: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True)
    before = report["accuracy"]["before"]
    for axis, metric in zip(axes, ("recall@20", "ndcg@20"), strict=True):
        for dtype, mark in (("int8", "o-"), ("float16", "s--")):
            rows = [row for row in report["accuracy"]["rows"] if row["dtype"] == dtype and row["users"] == "coded"]
            axis.plot([row["bytes"] / 1e6 for row in rows], [row[metric] for row in rows], mark, label=dtype)
            for row in rows if dtype == "int8" else []:
                axis.annotate(f"t={row['t']}", (row["bytes"] / 1e6, row[metric]), (2, -12), textcoords="offset points")
        axis.axhline(before[metric], color="grey", linewidth=1, label="with the graph")
        axis.axhline(0.97 * before[metric], color="grey", linewidth=1, linestyle=":", label="97 % of it")
        axis.set(xlabel="MB without ids, titles and histories", title=metric)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def say(title: str, text: str) -> None:
    print(f"{title}: {text}", flush=True)


if __name__ == "__main__":
    main()
