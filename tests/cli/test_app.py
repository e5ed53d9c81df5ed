# SPDX-License-Identifier: Apache-2.0
"""What stands before a command."""

import subprocess
import sys
from pathlib import Path

import pytest

from legcf import __version__
from tests.cli.typed import legcf, refused


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


LONG = "x" * 300
PATHS = [
    ("train", LONG, "--out", "run"),
    ("data", "info", LONG),
    ("recommend", LONG, "--user", "1"),
    ("compare", LONG, LONG),
]


@pytest.mark.parametrize("command", PATHS)
def test_a_name_that_no_file_can_have_is_a_sentence(command: tuple[str, ...]) -> None:
    assert "cannot be used: File name too long" in refused(*command)


@pytest.mark.parametrize("command", PATHS)
def test_a_folder_without_rights_is_a_sentence(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """As for whoever is not root, who may look into everything."""

    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    for question in ("exists", "is_file", "is_dir"):
        monkeypatch.setattr(Path, question, forbidden)
    assert "cannot be used: Permission denied. Name another file or folder, or change its rights." in refused(*command)
