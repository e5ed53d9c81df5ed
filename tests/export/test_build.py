# SPDX-License-Identifier: Apache-2.0
"""A model whose items are codes already is served from those very codes; solved users are as long as known ones."""

from dataclasses import replace

import numpy as np
import pytest

from legcf.assignment.assignment import Assignment
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.ranking.ranking import Codes
from tests.served import Toy


def coded(toy: Toy, t: int) -> Toy:
    rng = np.random.default_rng(0)
    items = len(toy.items)
    codebook = rng.standard_normal((9, toy.ranking.items.shape[1])).astype(np.float32)
    indices = np.argsort(rng.random((items, 9)), axis=1)[:, :t].astype(np.int32)
    assignment = Assignment(indices, rng.standard_normal((items, t)).astype(np.float32), 9)
    codes = Codes(codebook, assignment)
    return replace(toy, ranking=replace(toy.ranking, items=assignment.compose(codebook), codes=codes))


def test_own_codes_are_kept_when_no_user_is_stored(toy: Toy) -> None:
    model = coded(toy, t=2)
    built = build(model, ExportOptions(t=4, dtype="float16", users="none"))
    assert built.user_rows is None
    assert np.allclose(built.item_rows.vectors(slice(None)), model.ranking.items, atol=1e-2)
    assert built.item_rows.columns.shape == (len(toy.items), 2)


def test_fewer_weights_than_the_model_has_are_fitted_anew(toy: Toy) -> None:
    built = build(coded(toy, t=4), ExportOptions(t=2, users="none"))
    assert built.item_rows.columns.shape == (len(toy.items), 2)


@pytest.mark.parametrize("form", ["coded", "full"])
def test_users_solved_from_their_items_are_as_long_as_the_known_ones(toy: Toy, form: str) -> None:
    built = build(toy, ExportOptions(t=3, c=12, format=form), toy.validation)
    assert built.user_rows is not None
    known = built.user_rows.vectors(slice(None))
    solved = served_ranking(replace(built, user_rows=None), toy.train, quiet=True).users
    assert float((solved * known).sum() / (solved**2).sum()) == pytest.approx(1, abs=0.02)
