# SPDX-License-Identifier: Apache-2.0
"""The map: items that `/similar` calls alike stand together."""

import numpy as np

from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Scorer
from legcf.server.item_map import item_map, item_positions


def test_items_most_alike_stand_together(model: ServedModel) -> None:
    scorer = Scorer(model).prepare()
    shown = np.arange(len(model.items))
    points = item_positions(scorer, shown)
    near = []
    for item in shown.tolist():
        gaps = np.linalg.norm(points - points[item], axis=1)
        order = np.argsort(gaps)[1:21].tolist()
        alike = [model.items.position(found.id) for found in scorer.similar_items(model.items.external([item])[0], 5)]
        near.append(np.mean([other in order for other in alike]))
    assert np.mean(near) > 0.8  # 20 of 90 would be 0.2 by chance
    assert np.array_equal(points, item_positions(scorer, shown))
    assert np.abs(points).max() <= 1.2 + 1e-6


def test_map_of_very_few_items(model: ServedModel) -> None:
    scorer = Scorer(model).prepare()
    for count in (1, 2, 3):
        assert len(item_map(scorer, list(range(count)))["x"]) == count
