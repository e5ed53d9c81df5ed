# SPDX-License-Identifier: Apache-2.0
"""Wrap numba's compiler for the whole package: choose where compiled code is kept, and say when someone must wait.

Numba takes the package's own folder, and refuses to compile where no folder can be written: on a read-only file
system, for a user without a home. Then legcf's cache folder is taken, and if that cannot be written either, nothing is
kept and every process compiles anew. `NUMBA_CACHE_DIR` names another folder.

Parallel loops are compiled by a process of their own. The process that compiles one keeps the loop's body as it was
first optimised; what numba writes to disk is optimised once more. Where sums may be reordered (`fastmath`) the two
differ in their last bits, and the first run on a machine would not be repeated by the second.
"""

import contextlib
import hashlib
import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from legcf.core.files import cache_folder

_VARIABLE = "NUMBA_CACHE_DIR"  # numba reads it when it is imported
_COMPILES_FOR_ANOTHER = "LEGCF_COMPILES_FOR_ANOTHER"  # set in the process that compiles a parallel loop

_CHECKSUM_BYTES = hashlib.sha256().digest_size


def is_writable(folder: Path) -> bool:
    """Return whether files can be written in `folder`, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def settle_cache() -> bool:
    """Choose the folder that numba will use; return whether there is one."""
    if _VARIABLE in os.environ:
        return is_writable(Path(os.environ[_VARIABLE]))
    if is_writable(Path(__file__).parent / "__pycache__"):
        return True
    folder = cache_folder() / "compiled"
    if not is_writable(folder):
        return False
    os.environ[_VARIABLE] = str(folder)
    return True


_IS_KEPT = settle_cache()
try:
    tempfile.gettempdir()
except FileNotFoundError:  # torch's optimisers ask for a folder of its compiler, which is not used here: any will do
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).parent))

import numba  # noqa: E402 - once its folder is settled
from numba import get_num_threads, prange  # noqa: E402
from numba.core import event  # noqa: E402
from numba.core.caching import IndexDataCacheFile  # noqa: E402

__all__ = ["get_num_threads", "is_writable", "njit", "prange", "settle_cache", "silence"]
# Where /dev/shm is read-only, numba cannot lock its start against forks of this process and says so; there are none.
warnings.filterwarnings("ignore", message="Could not obtain multiprocessing lock")
numba.config.reload_config()  # type: ignore[no-untyped-call] # for the case that it was imported before us


def njit(cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Apply `numba.njit`; with `cache=True` compiled code is kept where a folder can be written."""
    keeps = cache and _IS_KEPT and not getattr(numba.config, "DISABLE_JIT", 0)
    compiler: Callable[[Callable[..., Any]], Any] = numba.njit(cache=keeps, **options)
    if not keeps:
        return compiler
    is_elsewhere = options.get("parallel") and options.get("fastmath") and _COMPILES_FOR_ANOTHER not in os.environ

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = compiler(function)
        dispatcher._cache._cache_file.__class__ = _CheckedFiles
        if is_elsewhere:
            dispatcher._cache = _CompiledElsewhere(dispatcher._cache, function)
        return dispatcher

    return compiled


class _CheckedFiles(IndexDataCacheFile):
    """Keep compiled code with a checksum behind it, and what it is: what is damaged, or of another function or other
    types, is compiled anew, and never run. Two processes that compile at once may take the same file."""

    def _dump(self, content: Any) -> bytes:
        data: bytes = super()._dump(content)  # type: ignore[no-untyped-call]
        return data + hashlib.sha256(data).digest()

    def _load_index(self) -> Any:
        try:
            data = Path(self._index_path).read_bytes()
            version = pickle.dumps(self._version, protocol=-1)
            stamp, overloads = _checked(data.removeprefix(version)) if data.startswith(version) else (None, {})
        except (OSError, EOFError):
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        return _checked((Path(self._cache_path) / name).read_bytes())

    def save(self, key: Any, data: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk: the next process compiles again
            super().save(key, (*self._name(key), data))  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        found = super().load(key)  # type: ignore[no-untyped-call]
        return found[-1] if found is not None and found[:-1] == self._name(key) else None

    def _name(self, key: Any) -> tuple[Any, ...]:
        return self._index_name, self._source_stamp, key


def _checked(data: bytes) -> Any:
    """Unpickle what `_CheckedFiles` has written; anything else is an OSError, after which numba compiles."""
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if hashlib.sha256(content).digest() != checksum:
        raise OSError("damaged")
    return pickle.loads(content)


class _CompiledElsewhere:
    """Wrap numba's cache of one function: what it lacks is compiled by another process and read from disk.

    Where no process can be started, numba goes on as it does without it.
    """

    def __init__(self, cache: Any, function: Callable[..., Any]) -> None:
        self._cache, self._function = cache, function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        overload = self._cache.load_overload(signature, target_context)
        if overload is None:
            _notice.print_once()
            _compile_elsewhere(self._function, signature)
            overload = self._cache.load_overload(signature, target_context)
        return overload


def _compile_elsewhere(function: Callable[..., Any], signature: Any) -> None:
    """Have a new process compile a function of a module and keep it."""
    request = pickle.dumps((function.__module__, function.__name__, signature))
    code = f"import sys; sys.path = {sys.path!r}; from legcf.core.jit import compile_for_another; compile_for_another()"
    environment = {**os.environ, _COMPILES_FOR_ANOTHER: "1"}
    with contextlib.suppress(OSError):
        subprocess.run([sys.executable, "-c", code], input=request, env=environment, capture_output=True, check=False)


def compile_for_another() -> None:
    """Compile the function that `_compile_elsewhere` names, in the process that it starts."""
    _notice.is_done = True
    module, name, signature = pickle.load(sys.stdin.buffer)
    getattr(importlib.import_module(module), name).compile(signature)


class _Notice(event.Listener):
    """Print once that compiling takes time; as compiled code is kept on disk, most processes print nothing."""

    is_done = False

    def on_start(self, event: Any) -> None:
        self.print_once()

    def print_once(self) -> None:
        if not self.is_done:
            self.is_done = True
            print("Compiling for this machine: the first time takes up to a minute.", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Do nothing: nobody waits for a notice of the end."""


_notice = _Notice()
event.register("numba:compile", _notice)  # type: ignore[no-untyped-call]


def silence() -> None:
    """Print nothing about compiling, for quiet commands."""
    _notice.is_done = True
