# SPDX-License-Identifier: Apache-2.0
"""Test what the page needs of a model in memory."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np

from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Scorer
from legcf.server.state.loaded_model import LoadedModel, LruCache, tag_of


def test_the_best_known_items_come_first_however_many_users_they_have(model: ServedModel) -> None:
    popularity = np.arange(len(model.items), dtype=np.uint32)
    popularity[[7, 3, 5]] = 3_000_000_000, 40_000, 32_768
    loaded = LoadedModel(Scorer(replace(model, popularity=popularity)), 0, "tag", LruCache(0))
    assert loaded.by_popularity[:4] == [7, 3, 5, len(model.items) - 1]


def test_a_file_of_any_size_is_hashed_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**28)
    tracemalloc.start()
    try:
        assert tag_of(path)[1] == 2**28
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
