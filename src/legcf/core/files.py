# SPDX-License-Identifier: Apache-2.0
"""Write files whole or not at all: under a temporary name in the same folder, then renamed. Find the cache folder."""

import ctypes
import errno
import glob
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from legcf.core.errors import UserError

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def cache_folder() -> Path:
    """Return the folder for what can be fetched or computed again: `$LEGCF_CACHE`, else the user's cache folder."""
    folder = os.environ.get("LEGCF_CACHE")
    return Path(folder) if folder else user_cache_path("legcf", appauthor=False)


def lasting(path: str | Path) -> str:
    """Return a path or pattern that means the same from another folder; other names stay as they are."""
    return str(Path(path).absolute()) if glob.has_magic(str(path)) or Path(path).exists() else str(path)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read. A pipe or a device, which may have nothing to read for ever, is an OSError at once."""
    return open(path, "rb", opener=_regular)


def _regular(name: str, flags: int) -> int:
    handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # else opening a pipe waits for whoever writes
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
    return handle


@contextmanager
def _cannot_write(path: Path) -> Iterator[None]:
    """Say in a sentence which file cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it replaces `path`, on failure nothing is left."""
    with _cannot_write(path), ExitStack() as ending:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        temporary = Path(name)
        ending.callback(temporary.unlink, missing_ok=True)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)


@contextmanager
def folder_held(folder: Path) -> Iterator[None]:
    """Lock a folder, which is made if it is not there, while this process writes in it; another gets a sentence.

    The lock ends with its process, however that ends, and leaves no file. Without locks (Windows, some network file
    systems) nothing is refused.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    if folder.exists() and not folder.is_dir():
        yield  # whoever writes says what is wrong
        return
    is_new = not folder.exists()
    with _cannot_write(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise UserError(f"{folder} is being written by another process: wait until it ends, or stop it.") from error
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(handle)
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # nothing was written


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Do as `written_whole` for a folder; an existing folder is replaced only once the new one is complete."""
    with _cannot_write(path), ExitStack() as ending:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        ending.callback(shutil.rmtree, temporary, ignore_errors=True)
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        if not path.exists():
            os.replace(temporary, path)
        elif not _exchanged(temporary, path):
            previous = temporary.with_suffix(".old")
            os.replace(path, previous)
            try:
                os.replace(temporary, path)
            except OSError:
                os.replace(previous, path)
                raise
            shutil.rmtree(previous)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step, so that neither is missing for a moment; return whether this system can."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return exchange is not None and not exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)


def reserve(path: Path) -> None:
    """Take the disk space of a file that is mapped into memory: to lack it later ends the process without a word."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return  # a file system that cannot tell
        path.unlink(missing_ok=True)
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from error


def write_json(path: Path, content: Any) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def digest(content: Any) -> str:
    """Return the SHA-256 of content as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> Any:
    try:
        with open_regular(path) as file:
            return parse_json(file.read())
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}.") from error


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of any origin: whatever is wrong with it is a ValueError, also lists in lists beyond the stack."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
