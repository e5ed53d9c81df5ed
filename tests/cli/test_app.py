# SPDX-License-Identifier: Apache-2.0
"""What stands before a command."""

import subprocess
import sys

from legcf import __version__
from tests.cli.typed import legcf


def test_version() -> None:
    answer = legcf("--version")
    assert (answer.code, answer.out, answer.err) == (0, f"legcf {__version__}\n", "")


def test_version_waits_for_nothing() -> None:
    code = (
        "import sys; sys.argv = ['legcf', '--version']\n"
        "from legcf.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'torch', 'numba', 'polars', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"legcf {__version__}\n[]\n"


def test_help_names_every_command_and_the_version() -> None:
    answer = legcf("--help")
    assert answer.code == 0
    for word in ("--version", "data", "train", "serve"):
        assert word in answer.out
