# SPDX-License-Identifier: Apache-2.0
"""What documents say can be typed, typed: every block of shell or Python, in order, in a folder of its own.

A block is run unless a comment before it says why not, and then its commands are still checked against the options that
there are:

    <!-- run: slow -->            takes minutes, or sets up an environment
    <!-- run: needs gowalla -->   needs data that is not here
    <!-- run: outline -->         has places to fill in (DATA, RUN)
    <!-- first: COMMAND -->       is run, but not shown

Blocks of ```console hold commands after `$ `, each with what it printed: the words must still be there.
`python -m tests.documents docs/production.md` writes down what the commands print now.
"""

import contextlib
import os
import queue
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests import forked
from tests.cli.typed import legcf

ROOT = Path(__file__).parents[1]
PORT, FOLDER = "8000", "/srv/shop"  # as documents say it; they are run with others
SECONDS = 120  # for a command
_BLOCK = re.compile(
    r"(?P<notes>(?:^<!-- (?:run|first): .*? -->\n)*)^```(?P<kind>sh|console|python)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- (run|first): (.*?) -->")
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_LINE = re.compile(r"^(?!\s*#)\S(?:.*\\\n)*.*$", re.MULTILINE)
_SHELL = re.compile(r"[|&;<>$`*]")
_PYTHON = re.compile(r"python - <<'END'\n(.*)END", re.DOTALL)
_PIPED = re.compile(r"(legcf (?!serve)[^|&;<>$`*#]+)([|>][^&;<$`]*)", re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """A command of a document, what it is said to print (None: it does not say), and whether it is to be run."""

    command: str
    printed: str | None
    runs: bool


def typed(document: str) -> Iterator[Typed]:
    """Every command in order; a block of Python is one command."""
    for block in _BLOCK.finditer(document):
        notes = _NOTE.findall(block["notes"])
        runs = not any(kind == "run" for kind, _ in notes)
        yield from (Typed(command, None, runs) for kind, command in notes if kind == "first")
        if block["kind"] == "console":
            yield from (Typed(found[1], found[2], runs) for found in _COMMAND.finditer(block["text"]))
        elif block["kind"] == "python":
            yield Typed(f"python - <<'END'\n{block['text']}END", None, runs)
        else:
            yield from (Typed(found[0], None, runs) for found in _LINE.finditer(block["text"]))


class Shell:
    """One bash for a document, so that jobs and variables last.

    `legcf` commands are run in this process, blocks of Python in a forked one: neither waits for imports.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = folder / ".bin"
        programs.mkdir()
        for name, words in (("legcf", f"{sys.executable} -m legcf"), ("python", sys.executable)):
            (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (programs / name).chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._type("trap 'kill $(jobs -p) 2>/dev/null' EXIT")

    def run(self, command: str) -> tuple[int, str]:
        """Exit code, and what was printed as a document would show it."""
        here = command.replace(PORT, self._port)
        words = shlex.split(here, comments=True) if not _SHELL.search(here.partition(" #")[0]) else []
        if words[:2] == ["legcf", "serve"]:  # goes on until it is stopped: wait until it answers
            asked = f"curl -sf localhost:{self._port}/ready >/dev/null"
            ready = f"for n in {{1..600}}; do {asked} && break; sleep 0.05; done; {asked}"
            code, output = self._type(f"{shlex.join(words)} --port {self._port} 2>/dev/null &\n{ready}")
        elif words[:1] == ["legcf"]:
            code, output = self._in_process(words[1:])
        elif piped := _PIPED.fullmatch(here):
            code, output = self._piped(shlex.split(piped[1])[1:], piped[2])
        elif block := _PYTHON.fullmatch(here):
            code, output = self._forked(block[1])
        else:
            code, output = self._type(here)
        return code, output.replace(self._port, PORT).replace(str(self._folder), FOLDER)

    def close(self) -> None:
        """End the shell and what it has started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _in_process(self, words: list[str]) -> tuple[int, str]:
        with contextlib.chdir(self._folder):
            answer = legcf(*words, together=True)
        return answer.code, answer.out

    def _piped(self, words: list[str], rest: str) -> tuple[int, str]:
        """A command whose output goes on into a file or to other programs."""
        with contextlib.chdir(self._folder):
            answer = legcf(*words)
        if answer.code:
            return answer.code, answer.err + answer.out
        printed = self._folder / ".printed"
        printed.write_text(answer.out)
        code, output = self._type(f"cat .printed {rest}")
        printed.unlink()
        return code, answer.err + output

    def _forked(self, text: str) -> tuple[int, str]:
        log = self._folder / ".log"
        code = forked.Forked(_run_block, str(self._folder), text, log=log).wait(SECONDS)
        output = log.read_text()
        log.unlink()
        return code, output

    def _type(self, command: str) -> tuple[int, str]:
        assert self._process.stdin is not None
        self._process.stdin.write(f'{command}\necho "<<$?>>"\n')
        self._process.stdin.flush()
        output = ""
        while True:
            try:
                line = self._lines.get(timeout=SECONDS)
            except queue.Empty:
                self._process.kill()
                raise AssertionError(f"{command}\nhas not ended after {SECONDS} seconds.\n{output}") from None
            if end := re.match(r"(.*)<<(\d+)>>$", line):
                return int(end[2]), output + end[1]
            output += line

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("<<255>>\n")  # it is gone, and whoever waits should know


def _run_block(folder: str, text: str) -> None:
    os.chdir(folder)
    forked.run_source(text)


def words(text: str) -> set[str]:
    """What must stay the same when numbers, ids and times do not."""
    return set(re.findall(r"(?<![\w-])[A-Za-z_]{3,}(?![\w-])", text))


def furnish(folder: Path) -> None:
    """The files that documents take for granted: interactions.csv, ratings.csv, log.csv, items.csv and als.npz."""
    rng = np.random.default_rng(0)
    users = ["alice", "bob", *(f"user-{number}" for number in range(2, 60))]
    likes = (np.arange(60)[:, None] % 4 == np.arange(50) % 4) & (rng.random((60, 50)) < 0.7)
    pairs = np.argwhere(likes | (rng.random((60, 50)) < 0.05))
    stars = rng.integers(3, 6, len(pairs))
    rows = [(users[user], f"item-{item}") for user, item in pairs]
    (folder / "interactions.csv").write_text("".join(f"{user},{item}\n" for user, item in [("user", "item"), *rows]))
    rated = [
        f"{user},{item},{star},{1_700_000_000 + place}\n"
        for place, ((user, item), star) in enumerate(zip(rows, stars, strict=True))
    ]
    (folder / "ratings.csv").write_text("".join(["user,item,rating,timestamp\n", *rated]))
    user, taken = rng.integers(0, 60, 1500), (4 * 12 * rng.random(1500) ** 2).astype(int)  # few items again and again
    log = zip(
        user, taken - taken % 4 + user % 4, rng.choice(["view", "buy", "hide"], 1500, p=[0.6, 0.38, 0.02]), strict=True
    )
    visits = [
        f"{('north', 'south', 'west')[who % 3]},{users[who]},item-{what},{kind},{1_700_000_000 + 3600 * place}\n"
        for place, (who, what, kind) in enumerate(log)
    ]
    (folder / "log.csv").write_text("".join(["shop,user,item,event,time\n", *visits]))
    kinds = [f"item-{item},{('tea', 'coffee', 'cups')[item % 3]},{5 + item % 7}\n" for item in range(50)]
    (folder / "items.csv").write_text("".join(["item,category,price\n", *kinds]))
    tables = {"users": rng.standard_normal((700, 16)), "items": rng.standard_normal((500, 16))}
    np.savez(folder / "als.npz", **{name: table.astype(np.float32) for name, table in tables.items()})


def rewritten(document: str) -> str:
    """A document with what its commands print now."""
    with tempfile.TemporaryDirectory() as folder:
        furnish(Path(folder))
        shell = Shell(Path(folder))
        try:
            ran = [(one, shell.run(one.command)[1]) for one in typed(document) if one.runs]
        finally:
            shell.close()

    answers = iter([output for one, output in ran if one.printed is not None])

    def filled(block: re.Match[str]) -> str:
        inner = block["text"]
        if block["kind"] == "console" and "run:" not in block["notes"]:
            inner = _COMMAND.sub(lambda found: f"$ {found[1]}\n{_tidy(next(answers))}", inner)
        return f"{block['notes']}```{block['kind']}\n{inner}```"

    return _BLOCK.sub(filled, document)


def _tidy(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewritten(path.read_text()))
