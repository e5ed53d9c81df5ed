# SPDX-License-Identifier: Apache-2.0
"""Golden files of a session, and the programs that read them."""

import shutil
from pathlib import Path

import pytest

import legcf

from .golden import write_golden

READER = Path(legcf.__file__).parent / "device" / "legcf.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Debian's nodejs is not installed: apt-get install nodejs")


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model file of every kind, with questions and answers."""
    folder = tmp_path_factory.mktemp("golden")
    write_golden(folder)
    return folder
