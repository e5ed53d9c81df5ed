# SPDX-License-Identifier: Apache-2.0
"""Planted communities on disk."""

from pathlib import Path

import pytest

from tests.helpers import planted, write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(40, 40), tmp_path_factory.mktemp("data") / "planted")
