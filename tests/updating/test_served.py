# SPDX-License-Identifier: Apache-2.0
"""New pairs in a served file, without its run."""

from pathlib import Path

import numpy as np
import pytest

from legcf import UserError
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Request, Scorer
from tests.helpers import COMMUNITIES
from tests.updating.conftest import ITEMS, MODELS, Later

KINDS = list(MODELS)


@pytest.fixture(scope="module", params=KINDS)
def served(request: pytest.FixtureRequest, later: Later) -> ServedModel:
    return build(MODELS[request.param]().fit(later.first).trained, ExportOptions(users="history"))


def test_new_users_and_items_take_part(served: ServedModel, later: Later, tmp_path: Path) -> None:
    both = later.both
    scorer = Scorer(served).updated(both["user"].to_list(), both["item"].to_list())
    scorer.model.save(tmp_path / "model.legcf")
    scorer = Scorer.load(tmp_path / "model.legcf")
    assert scorer.model.users is not None
    assert len(scorer.model.users) == 150
    shown = [(user, entry.id) for user in range(150) for entry in scorer.recommend(Request(user=user, k=3))]
    assert sum(int(item) >= ITEMS for _, item in shown) > 20
    new = [(user, int(item)) for user, item in shown if user >= 120]
    assert np.mean([user % COMMUNITIES == item % COMMUNITIES for user, item in new]) > 0.9
    has = set(both.filter(both["user"] == 130)["item"].to_list())
    assert not has & {entry.id for entry in scorer.recommend(Request(user=130, k=100))}


def test_known_pairs_change_nothing(served: ServedModel, later: Later) -> None:
    pairs = later.first.train
    again = Scorer(served).updated(pairs.users()[:50].tolist(), pairs.items[:50].tolist()).model
    assert np.array_equal(again.popularity, served.popularity)
    assert again.item_rows is served.item_rows
    assert Scorer(again).recommend(Request(user=3, k=5)) == Scorer(served).recommend(Request(user=3, k=5))


def test_files_without_histories_are_refused(later: Later) -> None:
    trained = MODELS["table"]().fit(later.first).trained
    with pytest.raises(UserError, match="users history"):
        Scorer(build(trained, ExportOptions(users="none"))).updated([1], [2])
    with pytest.raises(UserError, match="no pairs"):
        Scorer(build(trained, ExportOptions(users="history"))).updated([1], [2, 3])
