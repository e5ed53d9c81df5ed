# SPDX-License-Identifier: Apache-2.0
"""Test what the page needs of a model in memory."""

from dataclasses import replace

import numpy as np

from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Scorer
from legcf.server.state.loaded_model import LoadedModel
from legcf.server.state.response_cache import LruCache


def test_the_best_known_items_come_first_however_many_users_they_have(model: ServedModel) -> None:
    popularity = np.arange(len(model.items), dtype=np.uint32)
    popularity[[7, 3, 5]] = 3_000_000_000, 40_000, 32_768
    loaded = LoadedModel(Scorer(replace(model, popularity=popularity)), 0, "tag", LruCache(0))
    assert loaded.by_popularity[:4] == [7, 3, 5, len(model.items) - 1]
