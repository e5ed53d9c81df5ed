# SPDX-License-Identifier: Apache-2.0
"""Training, measuring and exporting as a user without rights on a read-only file system."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from numba.core.caching import UserProvidedCacheLocator

import legcf
from tests.cli.read_only import read_only
from tests.cli.typed import in_turn
from tests.helpers import planted, write_folder

SMALL = ("--preset", "paper", "--set", "method.c=8", "--set", "method.dim=8", "--epochs", "1", "--quiet")


def _legcf(inside: tuple[str, ...], *commands: tuple[object, ...], cache: Path | str) -> str:
    """What commands print, one after the other in a process."""
    done = subprocess.run(
        [*inside, *in_turn(*commands)],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "LEGCF_CACHE": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def _compiled_before(cache: Path) -> None:
    """Put what tests in this process have compiled where the commands will look for it: compiling takes a minute."""
    for kept in Path(legcf.__file__).parent.rglob("__pycache__"):
        if kept.parent.name != "evaluation":  # so that something is left to compile
            place = UserProvidedCacheLocator.get_suitable_cache_subpath(str(kept.parent / "module.py"))
            shutil.copytree(kept, cache / "compiled" / place, ignore=shutil.ignore_patterns("*.pyc*"))
    for folder in (cache, *cache.rglob("*")):
        folder.chmod(0o777)


@pytest.mark.slow
def test_from_training_to_export_with_one_writable_folder(writable: Path) -> None:
    data = write_folder(planted(40, 40), writable / "data")
    inside, run, cache = read_only(writable), writable / "run", writable / "cache"
    _compiled_before(cache)
    _legcf(inside, ("train", data, "--out", run, *SMALL), cache=cache)
    assert list((cache / "compiled").glob("evaluation_*/*.nbi"))  # there for the next command
    recommend = ("recommend", run, "--output", writable / "all.csv")
    export = ("export", run, writable / "model.legcf", "--quiet")
    assert "ndcg" in _legcf(inside, ("evaluate", run), recommend, export, cache=cache)
    assert (writable / "all.csv").read_text().startswith("user,")
    assert (writable / "model.legcf").stat().st_size > 0


@pytest.mark.slow
def test_recommendations_where_nothing_can_be_written(run: Path, writable: Path) -> None:
    readable = shutil.copytree(run, writable / "run")
    writable.chmod(0o755)
    assert "For user" in _legcf(read_only(), ("recommend", readable, "--user", 0, "-k", 3), cache="/nowhere")
