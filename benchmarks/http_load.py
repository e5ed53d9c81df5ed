# SPDX-License-Identifier: Apache-2.0
"""HTTP load for `bench_serving.py`: a server as a process, clients of nothing but asyncio, phases that take turns.

Whatever is compared is measured in turns of a second or two, so that other work on the machine meets all alike.
"""

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_STACK = (
    "import sys, uvicorn; from legcf.server.app import Settings, create_app; "
    "app = create_app(Settings(sys.argv[1], access_log=False, cache_bytes=0)); "
    "uvicorn.run(app, port=int(sys.argv[2]), loop=sys.argv[3], http=sys.argv[4], log_level='error', access_log=False)"
)
_GRANIAN = (
    "import sys; from granian import Granian; from legcf.server.app import Settings; "
    "Settings(sys.argv[1], access_log=False, cache_bytes=0).to_environment(); "
    "Granian('legcf.server.app:app_from_environment', factory=True, interface='asgi', port=int(sys.argv[2]), "
    "loop='uvloop', log_enabled=False).serve()"
)
_ASKED = np.random.default_rng(0)  # goes on from phase to phase: nobody is asked for in the same order again
BATCH = {"requests": 100, "k": 500, "explain": 50}


@contextlib.contextmanager
def serving(path: Path, *options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`legcf serve` on a free port."""
    command = [sys.executable, "-c", "from legcf.cli.app import main; main()", "serve", str(path), "--port", "0"]
    process = subprocess.Popen([*command, "--no-access-log", *options], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        port = next(json.loads(line)["port"] for line in process.stderr if '"listening"' in line)
        wait(port)
        yield port, process
        process.terminate()
        process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()


def wait(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health").read()
            return
        time.sleep(0.01)
    raise TimeoutError(f"Nothing answers on port {port}.")


async def load(
    port: int, users: Sequence[Any], connections: int, seconds: float, requests: int | None = None
) -> dict[str, Any]:
    """GET /recommend of random users over kept-alive connections, for so long or so many."""
    times: list[float] = []
    failed = 0
    begin = time.perf_counter()

    async def client() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while len(times) < requests if requests else time.perf_counter() < begin + seconds:
            user = users[int(_ASKED.integers(len(users)))]
            start = time.perf_counter()
            writer.write(f"GET /recommend/{user}?k=20 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            failed += not (await _answer(reader)).startswith(b"HTTP/1.1 200")
            times.append(time.perf_counter() - start)
        writer.close()

    done = await asyncio.gather(*(client() for _ in range(connections)), return_exceptions=True)
    failed += sum(isinstance(result, BaseException) for result in done)
    per_second = len(times) / (time.perf_counter() - begin)
    return {"times": times, "requests": len(times), "failed": failed, "per_second": per_second}


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
    return head


def request(target: str, body: Any = None) -> bytes:
    """A GET, or a POST of a body in JSON."""
    if body is None:
        return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    content = json.dumps(body).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def _send(port: int, requests: Sequence[bytes], clients: int) -> None:
    """The same requests again and again, without end."""

    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        for turn in itertools.count(first):
            writer.write(requests[turn % len(requests)])
            assert (await _answer(reader)).startswith(b"HTTP/1.1 200")

    async def all_clients() -> None:
        await asyncio.gather(*(client(first) for first in range(clients)))

    asyncio.run(all_clients())


def beside(
    port: int,
    users: Sequence[Any],
    requests: Sequence[bytes],
    rounds: int = 6,
    clients: int = 3,
    elsewhere: int | None = None,
) -> dict[str, Any]:
    """Single requests alone and beside clients that send long ones, of a server without a cache.

    With the port of another such server, also while the same is sent there: what it costs to share the machine.
    """
    to = {"beside": port, **({} if elsewhere is None else {"elsewhere": elsewhere})}
    times: dict[str, list[float]] = {"alone": [], **{name: [] for name in to}}
    asyncio.run(load(port, users, 1, 0.5))
    for _ in range(rounds):
        times["alone"] += asyncio.run(load(port, users, 1, 1.5))["times"]
        for name, target in to.items():
            sender = multiprocessing.Process(target=_send, args=(target, requests, clients))
            sender.start()
            time.sleep(0.5)
            times[name] += asyncio.run(load(port, users, 1, 1.5))["times"]
            assert sender.is_alive(), "a long request was refused"
            sender.terminate()
            sender.join()
            time.sleep(1)  # what they left behind
    found: dict[str, Any] = {name: quantiles(some) for name, some in times.items()}
    p99 = {name: found[name]["p99_ms"] for name in found}
    return {**found, "p99_ratio": p99["beside"] / p99["alone"]} | (
        {} if elsewhere is None else {"p99_ratio_elsewhere": p99["elsewhere"] / p99["alone"]}
    )


def beside_batches(path: Path, users: Sequence[Any]) -> dict[str, Any]:
    chosen = np.random.default_rng(1).integers(len(users), size=(30, BATCH["requests"])).tolist()
    ask = {"k": BATCH["k"], "explain": BATCH["explain"]}
    bodies = [{"requests": [{"user": users[user], **ask} for user in some]} for some in chosen]
    with serving(path, "--cache-mb", "0") as (port, _):
        return {**beside(port, users, [request("/recommend", body) for body in bodies]), "batch": BATCH}


def stacks(path: Path, users: Sequence[Any], connections: int, rounds: int = 5) -> dict[str, Any]:
    """The same app on different servers, one process each, without the cache of answers."""
    commands = {
        "asyncio and h11": [_STACK, "asyncio", "h11"],
        "uvloop and httptools": [_STACK, "uvloop", "httptools"],
    }
    with contextlib.suppress(ImportError):
        import granian  # noqa: F401

        commands["granian"] = [_GRANIAN]
    with contextlib.ExitStack() as stack:
        running = {}
        for name, (code, *more) in commands.items():
            port = free_port()
            command = [sys.executable, "-c", code, str(path), str(port), *more]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running[name] = port, process.pid
        for port, _ in running.values():
            wait(port)
            asyncio.run(load(port, users, connections, 0.3))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for _ in range(rounds):
            for name, (port, process_id) in running.items():
                before = _cpu_seconds(process_id)
                result = asyncio.run(load(port, users, connections, 1.2))
                spent = _cpu_seconds(process_id) - before
                found[name].append((result["per_second"], spent / result["requests"] * 1e3))
    return {
        name: dict(zip(("per_second", "cpu_ms"), np.median(values, axis=0).tolist(), strict=True))
        for name, values in found.items()
    }


def quantiles(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.quantile(times, [0.5, 0.99]) * 1e3
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _cpu_seconds(process_id: int) -> float:
    """Of a process and its children."""
    import psutil

    process = psutil.Process(process_id)
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))
