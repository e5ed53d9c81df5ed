# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.extend import with_item
from legcf.scoring.foldin import code_vector
from legcf.scoring.scorer import Request, Scorer

from ..served import GROUPS


def test_a_new_item_reaches_those_like_its_users(model: ServedModel, tmp_path) -> None:  # type: ignore[no-untyped-def]
    holders = [f"u{user}" for user in range(2, 40, GROUPS)]
    longer = with_item(model, "i/new", holders, "A new one")
    longer.save(tmp_path / "longer")
    scorer = Scorer.load(tmp_path / "longer")
    near = scorer.similar_items("i/new", 10)
    assert all(int(str(entry.id)[2:]) % GROUPS == 2 for entry in near)
    taste = scorer.profile(Request(user="u59"))  # of the same group, not among its users
    assert scorer.scores(taste)[-1] > np.quantile(scorer.scores(taste), 0.6)
    assert "i/new" not in {entry.id for entry in scorer.recommend(Request(user="u2", k=100))}
    assert scorer.model.item_name(90) == "A new one"


def test_refusals(model: ServedModel) -> None:
    with pytest.raises(UserError, match="already"):
        with_item(model, "i/1", ["u1"])
    with pytest.raises(UserError, match="no users"):
        with_item(model, "i/new", [])
    with pytest.raises(UserError, match="Unknown user"):
        with_item(model, "i/new", ["stranger"])
    with pytest.raises(UserError, match="kind"):
        with_item(model, 5, ["u1"])


def test_code_of_a_vector_in_the_span_is_exact() -> None:
    rng = np.random.default_rng(0)
    book = rng.standard_normal((20, 8)).astype(np.float32)
    columns, weights = code_vector(2 * book[3] - 1.5 * book[11], book, 6)
    np.testing.assert_allclose(weights @ book[columns], 2 * book[3] - 1.5 * book[11], atol=1e-4)
    columns, weights = code_vector(np.zeros(8, np.float32), book, 4)
    assert not weights.any()
