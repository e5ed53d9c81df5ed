# SPDX-License-Identifier: Apache-2.0
"""A virtual environment for each project, with every version pinned."""

import subprocess
import sys
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path

from roster import PROJECTS

HERE = Path(__file__).resolve().parent


@cache
def ready(project: str, folder: Path) -> str:
    """The interpreter of a project's environment, made when it is first asked for; ours is the one that runs."""
    if project == "legcf":
        return sys.executable
    place, pins = folder / project, HERE / "requirements" / f"{PROJECTS[project].package}.txt"
    python, mark = place / "bin" / "python", place / "installed"
    if not mark.exists() or mark.read_text() != pins.read_text():
        print(f"Installing {project}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        limits = str(HERE / "constraints.txt")
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-c", limits, "-r", str(pins)], check=True)
        mark.write_text(pins.read_text())
    return str(python.absolute())


@cache
def version(project: str) -> str:
    if project == "legcf":
        return installed("legcf")
    pins = (HERE / "requirements" / f"{PROJECTS[project].package}.txt").read_text().splitlines()
    wanted = PROJECTS[project].package
    return next(line.partition("==")[2] for line in pins if line.partition("==")[0].lower() == wanted)
