from pathlib import Path

import numpy as np
import pytest

from legcf.serving.artifact import ServingModel
from legcf.serving.scorer import Scorer

pytest.importorskip("onnxruntime", reason="the ONNX export is an extra")


def test_onnxruntime_gives_the_same_ranking(model: ServingModel, tmp_path: Path) -> None:
    import onnxruntime

    from legcf.serving.onnx_file import write_onnx

    assert write_onnx(model, tmp_path / "scorer.onnx") > 0
    session = onnxruntime.InferenceSession(str(tmp_path / "scorer.onnx"))
    items, scores = session.run(["items", "scores"], {"users": np.arange(60), "k": np.array([10])})
    expected_items, expected_scores = Scorer(model).recommend_all(10, exclude_seen=False, compiled=False)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)
    assert np.mean(items == expected_items) > 0.98  # near-ties may change places between float32 sums
