# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import QuantisedTable
from legcf.ranking.tables.pooling import Pooling
from legcf.scoring.scorer import Scorer
from tests.ranking.item_lists.test_lists import random_lists

pytest.importorskip("onnxruntime", reason="the ONNX export is an extra")


def test_onnxruntime_gives_the_same_ranking(model: ServedModel, tmp_path: Path) -> None:
    import onnxruntime

    from legcf.export.onnx_file import write_onnx

    assert write_onnx(model, tmp_path / "scorer.onnx") > 0
    session = onnxruntime.InferenceSession(str(tmp_path / "scorer.onnx"))
    items, scores = session.run(["items", "scores"], {"users": np.arange(60), "k": np.array([10])})
    expected_items, expected_scores = Scorer(model).recommend_all(10, exclude_seen=False, compiled=False)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)
    assert np.mean(items == expected_items) > 0.98  # near-ties may change places between float32 sums


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("table", [False, True])
def test_users_that_are_their_histories(listed: bool, table: bool, model: ServedModel, tmp_path: Path) -> None:
    import onnxruntime

    from legcf.export.onnx_file import write_onnx

    lists = random_lists(len(model.items), 0.1, 2) if listed else None
    rows = QuantisedTable.of(model.item_rows.vectors(slice(None)), 4) if table else model.item_rows
    pooling = Pooling(0.5, 0.3, model.popularity)
    pooled = replace(model, item_rows=rows, user_rows=None, pooling=pooling, lists=lists)
    write_onnx(pooled, tmp_path / "scorer.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "scorer.onnx"))
    assert pooled.history is not None
    histories = pooled.history.all()
    padded = np.full((60, int(histories.user_degrees.max()) + 2), -1, dtype=np.int64)
    for user in range(60):
        padded[user, : len(histories.of(user))] = histories.of(user)
    items, scores = session.run(["items", "scores"], {"history": padded, "k": np.array([10])})
    expected_items, expected_scores = Scorer(pooled).recommend_all(10, exclude_seen=False, compiled=False)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-3, atol=1e-4)
    assert np.mean(items == expected_items) > 0.98
