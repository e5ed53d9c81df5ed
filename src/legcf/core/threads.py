# SPDX-License-Identifier: Apache-2.0
"""Count the threads that may be used, set the same number for torch, numba and BLAS, and hold memory small."""

import ctypes
import gc
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
# Numbers of glibc's options, and bytes from which on an array goes back to the system when it is freed. By itself glibc
# raises that to 32 MB: then arrays of a run leave holes (100 MB more at Gowalla's peak). Less takes more time.
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _LARGE_ARRAY = -3, -1, 4 * 2**20


def wait_without_spinning() -> None:
    """Make waiting threads give their core away. Call it before torch, numba or numpy are loaded.

    There are three pools of threads here, and by default those of each spin while another works: beside other load a
    run took two to five times as long. Whoever sets these variables knows better.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # spin for 2⁴ cycles, not 2²⁶


@contextmanager
def collecting_what_is_new() -> Iterator[None]:
    """Let collections of circles pass over all that there is already: imported modules take 0.1 s each time.

    Within another of these, or where somebody else has frozen what there is, it stays as it is.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def return_freed_memory() -> None:
    """Give back what is freed, now and from now on: the phases of a run need different arrays. Glibc alone has this.

    Arrays that closures hold in a circle go first: 80 MB before the codes of Gowalla are trained.
    """
    gc.collect()
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE_ARRAY)
        libc.mallopt(_TRIM_THRESHOLD, _LARGE_ARRAY)
        libc.malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # another libc keeps its own ways
        return


def available() -> int:
    """Return how many threads the process's affinity, its container's quota and OMP_NUM_THREADS allow."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    limits = [cores, math.ceil(container_quota()), int(asked) if asked.isdigit() else cores]
    return max(1, min(limits))


def container_quota(root: Path = _CGROUPS, groups_file: Path = Path("/proc/self/cgroup")) -> float:
    """Return how many cores a container may keep busy, by cgroups of either version; very many without a limit."""
    try:
        groups = [
            line.split(":", 2)[2].strip("/") for line in groups_file.read_text().splitlines() if line.count(":") >= 2
        ]
    except OSError:
        groups = []
    quota = math.inf
    for group in {"", *groups}:
        here = Path(group)
        for level in (here, *here.parents):  # a limit binds all that is below it
            quota = min(quota, _quota_in(root / level), _quota_in(root / "cpu" / level))
    return quota if math.isfinite(quota) else 1e6


def _quota_in(folder: Path) -> float:
    try:
        if (folder / "cpu.max").exists():
            most, period = (folder / "cpu.max").read_text().split()
        else:
            most, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return float(most) / float(period) if float(most) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # no such group, or `max`: no limit
        return math.inf


def use(count: int | None = None) -> int:
    """Set the threads of torch, numba and BLAS for the whole process, so that equal settings give equal sums.

    Training, `update` and also `load_model` call it: the last bits of scores depend on the number of threads, and by
    default torch takes more than a container's quota.
    """
    import numba
    from threadpoolctl import threadpool_limits

    number = available() if count is None else count
    if (torch := sys.modules.get("torch")) is not None:  # what does not need it must not import it
        torch.set_num_threads(number)
    numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    threadpool_limits(number, user_api="blas")
    return number
