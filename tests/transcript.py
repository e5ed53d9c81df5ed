"""Transcripts in documents: commands after `$ ` in ```console blocks, each with what it printed.

`python -m tests.transcript docs/production.md` runs them once more and writes down what they print now.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PORT, FOLDER = "8000", "/srv/shop"  # as documents say it; they are run with others
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_END = re.compile(r"^<(\d+)>\n", re.MULTILINE)


def commands(document: str) -> list[tuple[str, str]]:
    """Every command of a document, in order, with what it is said to print."""
    return [(found[1], found[2]) for block in _BLOCK.findall(document) for found in _COMMAND.finditer(block)]


def run(typed: Sequence[str], folder: Path) -> list[tuple[int, str]]:
    """Exit code and output of each command; one shell runs them all, with the `legcf` of this Python."""
    program = folder / ".bin" / "legcf"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m legcf "$@"\n')
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = "".join(f'{command}\necho "<$?>"\n' for command in typed)
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; trap 'kill $(jobs -p) 2>/dev/null' EXIT\n{script.replace(PORT, port)}"],
        cwd=folder,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=300,
    )
    parts = _END.split(done.stdout.replace(port, PORT).replace(str(folder), FOLDER))
    return [(int(code), output) for output, code in zip(parts[0::2], parts[1::2], strict=False)]


def words(text: str) -> set[str]:
    """What must stay the same when numbers, ids and times do not."""
    return set(re.findall(r"(?<![\w-])[A-Za-z_]{3,}(?![\w-])", text))


def _rewritten(document: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        answers = iter(run([command for command, _ in commands(document)], Path(folder)))

    def filled(block: re.Match[str]) -> str:
        return _COMMAND.sub(lambda found: f"$ {found[1]}\n{_tidy(next(answers)[1])}", block[0])

    return _BLOCK.sub(filled, document)


def _tidy(output: str) -> str:
    lines = [line.rstrip() for line in output.splitlines()]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(_rewritten(path.read_text()))
