# SPDX-License-Identifier: Apache-2.0
"""Ask pip for which systems and Pythons every pin of constraints.txt has a wheel, into benchmarks/results/wheels.json.

    python tools/wheels.py

Nothing is installed: pip names the wheel that it would take (`--dry-run`), or that there is none. It fetches some
gigabytes on the way. `tests/test_packaging.py` compares the table with the pins.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "wheels.json"
SYSTEMS = {
    "Linux": ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_26_x86_64", "manylinux2014_x86_64"),
    "macOS": ("macosx_14_0_arm64",),
    "Windows": ("win_amd64",),
}
PYTHONS = ("3.11.9", "3.14.0")  # pip takes 3.11 for 3.11.0
_MISSING = re.compile(r"No matching distribution found for (\S+)")


def missing(pins: list[str], platforms: tuple[str, ...], python: str) -> list[str]:
    """Return the pins for which pip finds no wheel."""
    left, without = list(pins), []
    with tempfile.TemporaryDirectory() as folder:
        tags = [word for platform in platforms for word in ("--platform", platform)]
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet"]
        command += ["--no-cache-dir", "--only-binary=:all:", "--python-version", python, "--target", folder, *tags]
        while True:
            done = subprocess.run([*command, *left], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return without
            found = _MISSING.search(done.stderr)
            if found is None or found[1] not in left:
                raise RuntimeError(done.stderr)
            left.remove(found[1])
            without.append(found[1])


def main() -> None:
    pins = (ROOT / "constraints.txt").read_text().split()
    without = {
        f"{system}, Python {python}": missing(pins, platforms, python)
        for system, platforms in SYSTEMS.items()
        for python in PYTHONS
    }
    table = {"date": time.strftime("%Y-%m-%d"), "pins": pins, "without a wheel": without}
    RESULTS.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(without, indent=1))


if __name__ == "__main__":
    main()
