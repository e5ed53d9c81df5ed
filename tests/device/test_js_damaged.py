# SPDX-License-Identifier: Apache-2.0
"""Give damaged and hostile files to the JavaScript reader: each is refused with a sentence in little memory."""

import json
import subprocess
from pathlib import Path

from .conftest import NODE, READER, needs_node
from .damage import damaged_files

HERE = Path(__file__).parent
pytestmark = needs_node


def test_every_damaged_file_is_refused(golden: Path, tmp_path: Path) -> None:
    files = damaged_files(golden, tmp_path)
    assert len(files) > 3000
    command = [str(NODE), "--max-old-space-size=100", str(HERE / "node_damaged.js"), str(READER), str(tmp_path)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=500).stdout)
    assert report["files"] == len(files)
    assert report["odd"] == []
    assert report["accepted"] == []
    assert report["slowest"] < 1000  # milliseconds
    assert report["bytes"] < 100e6


def test_a_newer_file_is_said_to_be_newer(golden: Path, tmp_path: Path) -> None:
    content = (golden / "all.legcf").read_bytes()
    (tmp_path / "newer").write_bytes(content.replace(b'"version":"2"', b'"version":"3"', 1))
    program = (
        'const { Legcf } = await import(process.argv[1]); const { readFileSync } = await import("node:fs");'
        "await Legcf.load(readFileSync(process.argv[2])).catch((error) => console.log(error.message));"
    )
    found = subprocess.run(
        [str(NODE), "--input-type=module", "-e", program, str(READER), str(tmp_path / "newer")],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert 'format version "3"' in found.stdout
    assert "newer" in found.stdout
