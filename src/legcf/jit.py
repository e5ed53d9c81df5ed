# SPDX-License-Identifier: Apache-2.0
"""Numba's compiler for the whole package: where it keeps what it compiled, and a word to whoever waits for it.

Numba takes the package's own folder, and refuses to compile where no folder can be written: on a read-only file
system, for a user without a home. Then legcf's cache folder is taken, and if that cannot be written either, nothing is
kept and every process compiles anew. `NUMBA_CACHE_DIR` names another folder.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from legcf.files import cache_folder

_VARIABLE = "NUMBA_CACHE_DIR"  # numba reads it when it is imported


def is_writable(folder: Path) -> bool:
    """Whether files can be written in `folder`, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def settle_cache() -> bool:
    """Choose the folder that numba will take; whether there is one."""
    if _VARIABLE in os.environ:
        return is_writable(Path(os.environ[_VARIABLE]))
    if is_writable(Path(__file__).parent / "__pycache__"):
        return True
    folder = cache_folder() / "compiled"
    if not is_writable(folder):
        return False
    os.environ[_VARIABLE] = str(folder)
    return True


def _spare_torch_a_temporary_folder() -> None:
    """Its optimisers ask for a folder of torch's compiler, which is not used here: any that exists will do."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).parent))


_IS_KEPT = settle_cache()
_spare_torch_a_temporary_folder()

import numba  # noqa: E402 - once its folder is settled
from numba import get_num_threads, prange  # noqa: E402
from numba.core import event  # noqa: E402

__all__ = ["get_num_threads", "is_writable", "njit", "prange", "settle_cache", "silence"]
# Where /dev/shm is read-only, numba cannot lock its start against forks of this process and says so; there are none.
warnings.filterwarnings("ignore", message="Could not obtain multiprocessing lock")
numba.config.reload_config()  # type: ignore[no-untyped-call] # for the case that it was imported before us


def njit(cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, for which `cache=True` is a wish."""
    compiler: Callable[[Callable[..., Any]], Any] = numba.njit(cache=cache and _IS_KEPT, **options)
    return compiler


class _Teller(event.Listener):
    """Compiled code is kept on disk, so that most processes have nothing to tell."""

    has_told = False

    def on_start(self, event: Any) -> None:
        if not self.has_told:
            self.has_told = True
            print("Compiling for this machine: the first time takes up to a minute.", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nobody asks when it is over."""


_teller = _Teller()
event.register("numba:compile", _teller)  # type: ignore[no-untyped-call]


def silence() -> None:
    """For commands that are to be quiet."""
    _teller.has_told = True
