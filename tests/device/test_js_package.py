# SPDX-License-Identifier: Apache-2.0
"""Check the JavaScript reader as a package: how small it is, and that `npm pack` gives what package.json promises."""

import gzip
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import legcf

from .conftest import READER

LARGEST = 12 * 1024  # bytes


def test_the_reader_stays_small() -> None:
    size = len(gzip.compress(READER.read_bytes(), 9)) + len(READER.name) + 1  # the program gzip notes the name
    print(f"legcf.js: {size} bytes gzipped")
    assert size <= LARGEST


def test_the_reader_needs_nothing() -> None:
    source = READER.read_text()
    assert not re.search(r"^import\b|\bimport\(|\brequire\(", source, re.MULTILINE)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|sendBeacon|WebSocket", source)  # nothing is sent anywhere


def test_the_package_has_the_version_of_legcf() -> None:
    assert json.loads(READER.with_name("package.json").read_text())["version"] == legcf.__version__


@pytest.mark.skipif(shutil.which("npm") is None, reason="Debian's npm is not installed: apt-get install npm")
def test_npm_pack_gives_a_package(tmp_path: Path) -> None:
    command = [
        "npm",
        "pack",
        "--offline",
        "--ignore-scripts",
        f"--pack-destination={tmp_path}",
        f"--cache={tmp_path}/npm",
    ]
    subprocess.run(command, cwd=READER.parent, check=True, capture_output=True, timeout=120)
    (packed,) = tmp_path.glob("legcf-*.tgz")
    with tarfile.open(packed) as files:
        assert set(files.getnames()) == {"package/legcf.js", "package/legcf.d.ts", "package/package.json"}


def test_declarations_name_what_there_is() -> None:
    declared = set(re.findall(r"^  (?:static |readonly )?(\w+)\??[(:]", _class("legcf.d.ts"), re.MULTILINE))
    assert declared >= {
        "load",
        "recommend",
        "similar",
        "explain",
        "name",
        "popularity",
        "history",
        "attributes",
        "items",
    }
    source = READER.read_text()
    assert [name for name in declared if not re.search(rf"\b{name}\b", source)] == []


def _class(name: str) -> str:
    return READER.with_name(name).read_text().partition("export class Legcf {")[2]
