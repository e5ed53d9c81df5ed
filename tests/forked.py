# SPDX-License-Identifier: Apache-2.0
"""Processes that need not wait for imports: each is forked from one process that has made them and nothing else.

They can be killed like any other, and have threads, memory and random numbers of their own.
"""

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

PRELOADED = [
    "pytest",
    "legcf.cli.commands.train",
    "legcf_studies.paper.reproduce",
    "legcf_studies.report.plots",
    "torch._dynamo",  # takes two seconds by itself, and optimisers want it
]
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(PRELOADED)


class Forked:
    """A function in such a process, in the manner of `subprocess.Popen`; what it prints goes to `log`."""

    def __init__(self, function: Callable[..., None], *arguments: object, log: str | Path = os.devnull) -> None:
        self._process = _SERVER.Process(target=_logged, args=(str(log), function, *arguments))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"it has not ended after {seconds} seconds"
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def command(*words: object, log: str | Path = os.devnull) -> Forked:
    """`legcf WORDS`."""
    return Forked(run_command, *map(str, words), log=log)


def ranks(function: Callable[..., None], *arguments: object, count: int, log: str | Path) -> list[Forked]:
    """A function in processes that will meet as ranks, in the manner of torch's launcher; none is started again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job = {
        "TORCHELASTIC_RUN_ID": "forked", "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return [Forked(_as_rank, {**job, "RANK": str(rank)}, function, *arguments, log=log) for rank in range(count)]


def _as_rank(variables: dict[str, str], function: Callable[..., None], *arguments: object) -> None:
    os.environ.update(variables)
    function(*arguments)


def run_as_rank(out: str, variables: dict[str, str], words: list[str]) -> None:
    """`legcf WORDS` as a rank that prints to `out`."""
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stdout.fileno())
    os.environ.update(variables, LEGCF_LAUNCHER=str(os.getppid()))
    run_command(*words)


def run_source(text: str) -> None:
    exec(compile(text, "-", "exec"), {"__name__": "__main__"})


def run_command(*words: str) -> None:
    from legcf.cli.app import main

    sys.argv = ["legcf", *words]
    main()


def _logged(log: str, function: Callable[..., None], *arguments: object) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(file, stream)
    function(*arguments)
