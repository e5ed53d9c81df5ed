# SPDX-License-Identifier: Apache-2.0
"""No compiled loop reads or writes outside its arrays, whatever sizes it meets and whatever a file says."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.data.interactions import Interactions
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.item_lists.lists import ItemLists

CRAFTED = 150  # files with a changed byte under a right checksum
ROOT = Path(__file__).parents[2]


def craft_files(model: ServedModel, folder: Path) -> None:
    """Write files that are whole but for one byte of one array."""
    rng = np.random.default_rng(0)
    size = len(model.items)
    pairs = Interactions.from_pairs(*np.nonzero(rng.random((size, size)) < 0.1), size, size)
    lists = ItemLists(pairs, rng.standard_normal(pairs.num_pairs).astype(np.float32))
    replace(model, lists=lists).save(folder / "whole.legcf")
    arrays, metadata = read_container(folder / "whole.legcf")
    names = [name for name in sorted(arrays) if arrays[name].nbytes and not name.startswith(("ids", "titles"))]
    for number in range(CRAFTED):
        name = names[number % len(names)]
        changed = arrays[name].copy()
        changed.view(np.uint8).reshape(-1)[rng.integers(changed.nbytes)] = rng.integers(256)
        write_container(folder / f"{number}.legcf", {**arrays, name: changed}, metadata)


@pytest.mark.slow
def test_every_index_is_checked_once(model: ServedModel, tmp_path: Path) -> None:
    craft_files(model, tmp_path)
    command = [sys.executable, "-m", "tests.core.bounds_program", str(tmp_path)]
    quickly_compiled = {**os.environ, "NUMBA_OPT": "0"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quickly_compiled)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all indices are within their arrays" in done.stdout
