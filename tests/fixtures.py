# SPDX-License-Identifier: Apache-2.0
"""What every test starts from: a cache of its own, files in memory, one thread of torch, repeatable property tests."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["OMP_NUM_THREADS"] = "1"  # pytest runs several workers, and commands they start must not fight for cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of those commands compiles the whole package anew

import torch

from legcf.core import jit

settings.register_profile(
    "legcf",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
)
settings.load_profile("legcf")
torch.set_num_threads(1)
jit.silence()  # what commands print must not depend on what was compiled before
_MEMORY, _ENOUGH = Path("/dev/shm"), 4e9  # bytes; tests take far less


def _has_room_in_memory() -> bool:
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return False
    there = os.statvfs(_MEMORY)
    return there.f_bavail * there.f_frsize > _ENOUGH and not there.f_flag & os.ST_NOEXEC


if sys.platform == "linux" and _has_room_in_memory():
    # Files that are written whole are also flushed to disk, many thousands of them in all tests: a disk takes minutes.
    os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None


_FEW = 10_000  # objects


def pytest_collection_finish() -> None:
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    if len(gc.get_objects(generation=2)) > _FEW:
        _freeze()


def _freeze() -> None:
    """Let collections pass over what is imported by now: a training has ten, which would visit a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither read nor fill the cache of whoever runs the tests."""
    before = os.environ.get("LEGCF_CACHE")
    os.environ["LEGCF_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["LEGCF_CACHE"]
    else:
        os.environ["LEGCF_CACHE"] = before


@pytest.fixture
def writable() -> Iterator[Path]:
    """A folder that everybody can reach and write in; pytest's own are for their owner alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"{folder} with the published datasets is not there.")
    return folder
