# SPDX-License-Identifier: Apache-2.0
"""Commands as they run in a locked-down container: without rights, on a file system that is read-only everywhere."""

import shutil
import subprocess
from pathlib import Path

import pytest

# The right to read stays, since pytest's folders and maybe Python's own are for their owner alone.
_SCRIPT = (
    'writable=$1; shift; if [ -n "$writable" ]; then mount --bind "$writable" "$writable"; fi && '
    "mount -o remount,bind,ro / && mount -o remount,bind,ro /dev/shm && exec setpriv --reuid=65534 --regid=65534 "
    '--clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"'
)


def can_be_read_only() -> bool:
    tools = shutil.which("unshare") and shutil.which("setpriv")
    return bool(tools) and not subprocess.run([*_inside(None), "true"], capture_output=True).returncode


def read_only(writable: Path | None = None) -> tuple[str, ...]:
    """What to put before a command so that it can write nothing, temporary folders included, but in `writable`."""
    if not can_be_read_only():
        pytest.skip("needs the right to remount file systems")
    return _inside(writable)


def _inside(writable: Path | None) -> tuple[str, ...]:
    return ("unshare", "-m", "sh", "-c", _SCRIPT, "-", "" if writable is None else str(writable))
