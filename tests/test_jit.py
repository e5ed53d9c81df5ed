"""Whoever waits for the compiler is told so: once, and not again when compiled code is on disk."""

import os
import subprocess
import sys
from pathlib import Path


def test_told_once_and_only_while_nothing_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "from legcf.jit import njit\n\n\n"
        "@njit(cache=True)\ndef one(x):\n    return x + 1\n\n\n"
        "@njit(cache=True)\ndef two(x):\n    return x + 2\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": _path(tmp_path)}
    for said in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", "import kernels; print(kernels.one(1) + kernels.two(1.5))"],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert done.stdout.strip() == "5.5"
        assert done.stderr.count("Compiling for this machine") == said


def _path(first: Path) -> str:
    return os.pathsep.join([str(first), *(entry for entry in sys.path if entry)])
