# SPDX-License-Identifier: Apache-2.0
"""Describe the machine, the code, and how much of the machine is free."""

import functools
import hashlib
import os
import platform
import socket
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

import legcf
from legcf.training.registry import METHODS


def cores() -> int:
    """Return how many cores this process may use, which can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory_mb() -> float:
    return float(psutil.virtual_memory().available) / 2**20


def describe() -> dict[str, Any]:
    import torch

    return {
        "host": socket.gethostname(),
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


@functools.cache
def code_version() -> str:
    """Return the release and a digest of the sources, those of packages that bring methods among them: two commits of
    one release are not the same code."""
    packages = sorted({entry.module.partition(".")[0] for entry in entry_points(group=METHODS.group)})
    hasher = hashlib.sha256()
    for package in ("legcf", *packages):
        spec = find_spec(package)
        source = Path(spec.origin if spec is not None and spec.origin is not None else package)
        for path in sorted(source.parent.rglob("*.py")) if source.stem == "__init__" else [source]:
            hasher.update(path.relative_to(source.parent).as_posix().encode() + path.read_bytes())
    return f"{legcf.__version__}+{hasher.hexdigest()[:8]}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
