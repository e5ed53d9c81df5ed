# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from legcf import Recommender, UserError, cross_validate
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.experiments.cross_validation import CrossValidation, folded
from tests.helpers import interactions, planted

FAST = Recommender(preset="fast", method_options={"dim": 8})


def test_every_pair_is_tested_on_once_and_never_trained_on_then() -> None:
    data = planted(40, 40)
    tested = []
    for part in folded(data, 4):
        keys = [one.keys() for one in (part.train, part.validation, part.test)]
        assert np.array_equal(np.sort(np.concatenate(keys)), data.known.keys())
        assert np.all(part.train.user_degrees[part.test.user_degrees > 0] > 0)
        tested.append(part.test)
    assert np.array_equal(np.sort(np.concatenate([one.keys() for one in tested])), data.known.keys())
    degrees = np.array([one.user_degrees for one in tested])
    assert np.all(degrees.max(axis=0) - degrees.min(axis=0) <= 1), "everybody's pairs are spread over the folds"


def test_folds_follow_the_seed_of_the_split() -> None:
    first, again, other = (
        next(folded(planted(40, 40), 4, DataOptions(split_seed=seed))).test.digest() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_only_pair_of_a_user_always_trains() -> None:
    lone = interactions([(0, 0), (1, 0), (1, 1), (1, 2), (2, 1)], 3, 3)
    plain = planted(3, 3)
    data = Dataset(
        "lone", "ratio", plain.users, plain.items, lone, lone.subset(lone.items > 9), lone.subset(lone.items > 9)
    )
    assert all(part.train.of(0).tolist() == [0] and part.train.of(2).tolist() == [1] for part in folded(data, 3))


def test_mean_deviation_and_paired_comparison() -> None:
    data = planted(40, 40)
    one = cross_validate(FAST, data, folds=3)
    scores = [fold["ndcg@20"] for fold in one.folds]
    assert len(scores) == 3
    assert one.metrics["ndcg@20"].mean == pytest.approx(np.mean(scores))
    assert f"ndcg@20: {np.mean(scores):.4f} ±" in repr(one)
    assert len(repr(one)) < 200
    assert "3 folds" in one._repr_html_()
    assert one.metrics["ndcg@20"].spread == pytest.approx(np.std(scores, ddof=1))
    popular = cross_validate(Recommender("popularity"), data, folds=3)
    told = one.against(popular)["ndcg@20"]
    pairs = one.per_user["ndcg@20"], popular.per_user["ndcg@20"]
    assert told.difference == pytest.approx((pairs[0] - pairs[1]).mean())
    assert told.t_test == pytest.approx(stats.ttest_rel(*pairs).pvalue)
    assert told.difference > 0
    with pytest.raises(UserError, match="do not pair"):
        one.against(cross_validate(Recommender("popularity"), data, folds=2))
    with pytest.raises(UserError, match="not been fitted"):
        FAST.recommend()


@pytest.mark.parametrize("damage", ["number", "kind", "zip", "bytes"])
def test_damaged_folds_are_a_sentence(damage: str, tmp_path: Path) -> None:
    cross_validate(Recommender("popularity"), planted(20, 20), folds=2).save(tmp_path / "folds")
    content, values = (tmp_path / "folds" / name for name in ("folds.json", "per_user.npz"))
    described, packed = json.loads(content.read_text()), bytearray(values.read_bytes())
    if damage in ("number", "kind"):
        described["folds"][1]["ndcg@20"] = "x" if damage == "number" else {}
        content.write_text(json.dumps(described))
    else:
        values.write_bytes(packed[:-40] if damage == "zip" else packed[:60] + b"damaged" + packed[67:])
    with pytest.raises(UserError, match="is damaged"):
        CrossValidation.load(tmp_path / "folds")


def test_bad_input() -> None:
    with pytest.raises(UserError, match="at least 2"):
        cross_validate(FAST, planted(40, 40), folds=1)
    with pytest.raises(UserError, match="must be a whole number"):
        cross_validate(FAST, planted(40, 40), folds=2.5)  # type: ignore[arg-type]
    rows = pl.DataFrame({"user": [*"aabbccdd"] * 2, "item": [*"xyyzzxxz"] * 2})
    with pytest.raises(UserError, match="leave `repeat='allow'` or folds out"):
        cross_validate(FAST, rows, folds=2, repeat="allow")
