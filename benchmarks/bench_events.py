# SPDX-License-Identifier: Apache-2.0
"""Events into a server that is killed, and what they cost the answers beside them.

    python benchmarks/bench_events.py                      # 100,000 events over 16 connections, five times kill -9
    python benchmarks/bench_events.py --model model.legcf  # on an exported file, instead of random vectors

Every sender repeats what was not acknowledged, as a client would. At the end the log must hold every acknowledged event
once. Answers with and without events beside them are measured in turns. `--json FILE` keeps the numbers.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from http_load import free_port, load, quantiles, wait

from legcf.scoring.scorer import Scorer
from legcf.server.state.event_log import EventLog


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="an exported file [random vectors]")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--together", type=int, default=1, help="events per request")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6, help="of answers with and without events")
    parser.add_argument("--seconds", type=float, default=1800, help="give up after so long")
    parser.add_argument("--part", action="append", choices=("kills", "beside"), help="what to measure [both]")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"cores": os.cpu_count(), "workers": options.workers, "connections": options.connections}
    with tempfile.TemporaryDirectory(prefix="legcf-events-") as folder:
        model = options.model or random_model(Path(folder) / "model.legcf")
        users, items = known_ids(model)
        for part in options.part or ("kills", "beside"):
            measure = {"kills": killed, "beside": beside}[part]
            report[part] = measure(model, Path(folder) / part, users, items, options)
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def random_model(path: Path, num_users: int = 5000, num_items: int = 20_000) -> Path:
    from legcf.data.ids import IdMap
    from legcf.data.interactions import Interactions
    from legcf.modelfile.histories import PackedHistories
    from legcf.modelfile.served_model import ServedModel
    from legcf.ranking.tables.embedding_table import CodebookTable

    rng = np.random.default_rng(0)
    codebook = rng.standard_normal((500, 64)).astype(np.float32)
    columns, weights = rng.integers(0, 500, (num_items, 4)).astype(np.uint16), rng.random((num_items, 4))
    owners = np.repeat(np.arange(num_users), 20)
    pairs = Interactions.from_pairs(owners, rng.integers(0, num_items, len(owners)), num_users, num_items)
    ServedModel(
        IdMap.consecutive(num_items, "item"),
        CodebookTable(columns, weights.astype(np.float32), codebook),
        pairs.item_degrees,
        users=IdMap.consecutive(num_users, "user"),
        history=PackedHistories.of(pairs),
    ).save(path)
    return path


def known_ids(path: Path) -> tuple[list[Any], list[Any]]:
    model = Scorer.load(path).model
    users = list(range(5000)) if model.users is None else model.users.values.tolist()
    return users, model.items.values.tolist()


class Server:
    def __init__(self, model: Path, folder: Path, workers: int) -> None:
        self.port = free_port()
        self._command = [sys.executable, "-c", "from legcf.cli.app import main; main()", "serve", str(model)]
        self._command += ["--port", str(self.port), "--workers", str(workers), "--accept-events", str(folder)]
        self._command += ["--no-access-log", "--cache-mb", "0"]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def killed(
    model: Path, folder: Path, users: Sequence[Any], items: Sequence[Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Send all events while the server is killed again and again; then count what the log holds."""
    server = Server(model, folder, options.workers)
    server.start()
    try:
        wait(server.port)
        result = asyncio.run(send_all(server, users, items, options))
    finally:
        server.kill()
    acknowledged = set(result.pop("acknowledged"))
    _, events = EventLog(folder).since()
    counts = Counter(event.id for event in events)
    return {
        "events": options.events,
        **result,
        "acknowledged": len(acknowledged),
        "lost": sum(name not in counts for name in acknowledged),
        "twice": sum(count > 1 for count in counts.values()),
        "in_log": len(counts),
    }


async def send_all(
    server: Server, users: Sequence[Any], items: Sequence[Any], options: argparse.Namespace
) -> dict[str, Any]:
    acknowledged: list[str] = []
    times: list[float] = []
    repeated, kills, begin = 0, 0, time.perf_counter()

    async def client(first: int) -> None:
        nonlocal repeated
        reader = writer = None
        for start in range(first * options.together, options.events, options.connections * options.together):
            body, names = events_of(range(start, min(start + options.together, options.events)), users, items)
            while time.perf_counter() < begin + options.seconds:
                try:
                    if writer is None:
                        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                    assert reader is not None
                    sent = time.perf_counter()
                    head, content = await post(reader, writer, body)
                    if head.startswith(b"HTTP/1.1 200"):
                        times.append(time.perf_counter() - sent)
                        acknowledged.extend(names)
                        repeated += json.loads(content)["repeated"]
                        break
                except (OSError, EOFError, asyncio.IncompleteReadError):
                    if writer is not None:
                        writer.close()
                    reader = writer = None
                await asyncio.sleep(0.02)

    async def killer() -> None:
        nonlocal kills
        for kill in range(options.kills):
            while len(acknowledged) < options.events * (kill + 1) / (options.kills + 1):
                await asyncio.sleep(0.01)
            server.kill()
            kills += 1
            server.start()

    killing = asyncio.create_task(killer())
    await asyncio.gather(*(client(first) for first in range(options.connections)))
    killing.cancel()
    seconds = time.perf_counter() - begin
    facts = {"kills": kills, "seconds": seconds, "per_second": len(acknowledged) / seconds, "sent_again": repeated}
    return {"acknowledged": acknowledged, **facts, **quantiles(times)}


def events_of(numbers: range, users: Sequence[Any], items: Sequence[Any]) -> tuple[bytes, list[str]]:
    names = [f"event-{number}" for number in numbers]
    events = [
        {"id": name, "user": users[number % len(users)], "item": items[number * 7 % len(items)]}
        for name, number in zip(names, numbers, strict=True)
    ]
    return json.dumps({"events": events}).encode(), names


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[bytes, bytes]:
    kind = "Content-Type: application/json"
    head = f"POST /interactions HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return answer, await reader.readexactly(size)


def send_without_end(port: int, users: Sequence[Any], items: Sequence[Any], connections: int, sent: Any) -> None:
    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = first
        while True:
            event = {"user": users[number % len(users)], "item": items[number * 7 % len(items)]}
            await post(reader, writer, json.dumps({"events": [event]}).encode())
            number += connections
            with sent.get_lock():
                sent.value += 1

    async def all_clients() -> None:
        await asyncio.gather(*(client(first) for first in range(connections)))

    asyncio.run(all_clients())


def beside(
    model: Path, folder: Path, users: Sequence[Any], items: Sequence[Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Single requests for recommendations, alone and beside the same number of connections that send events."""
    server = Server(model, folder, options.workers)
    server.start()
    times: dict[str, list[float]] = {"alone": [], "beside": []}
    sent = multiprocessing.Value("q", 0)
    began = 0.0
    try:
        wait(server.port)
        asyncio.run(load(server.port, users, 2, 1))
        for _ in range(options.rounds):
            times["alone"] += asyncio.run(load(server.port, users, 1, 3))["times"]
            sender = multiprocessing.Process(
                target=send_without_end, args=(server.port, users, items, options.connections, sent)
            )
            sender.start()
            time.sleep(0.5)
            before, start = sent.value, time.perf_counter()
            times["beside"] += asyncio.run(load(server.port, users, 1, 3))["times"]
            began += (sent.value - before) / (time.perf_counter() - start)
            sender.terminate()
            sender.join()
    finally:
        server.kill()
    alone, together = (quantiles(times[name]) for name in ("alone", "beside"))
    return {
        "alone": alone,
        "beside": together,
        "p99_ratio": together["p99_ms"] / alone["p99_ms"],
        "events_per_second": began / options.rounds,
        "log": len(EventLog(folder)),
    }


if __name__ == "__main__":
    main()
