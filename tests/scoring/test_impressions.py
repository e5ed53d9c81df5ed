# SPDX-License-Identifier: Apache-2.0
"""Pages go on where the last one ended, whatever the rules; what was shown in vain comes later or not at all."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.modelfile.attributes import Attributes, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.impressions import count_impressions
from legcf.scoring.scorer import Request, Scorer

from ..served import ITEMS


@pytest.fixture(scope="module")
def scorer(model: ServedModel) -> Scorer:
    brands = text_column(np.arange(ITEMS), [f"brand {item % 5}" for item in range(ITEMS)], ITEMS)
    return Scorer(replace(model, attributes=Attributes({"brand": brands})))


def _ids(scorer: Scorer, **asked: Any) -> list[Any]:
    return [one.id for one in scorer.recommend(Request(user="u1", **asked))]


@settings(max_examples=40, deadline=None)
@given(
    k=st.integers(1, 9),
    diversity=st.sampled_from([0.0, 0.3, 1.0]),
    cap=st.sampled_from([{}, {"brand": 1}, {"brand": 4}]),
    exclude_seen=st.booleans(),
)
def test_pages_one_after_the_other_are_one_list(
    scorer: Scorer, k: int, diversity: float, cap: dict[str, int], exclude_seen: bool
) -> None:
    rules: dict[str, Any] = {"diversity": diversity, "cap": cap, "exclude_seen": exclude_seen}
    pages = [_ids(scorer, k=k, offset=offset, **rules) for offset in range(0, ITEMS + k, k)]
    joined = [item for page in pages for item in page]
    assert pages[0] == _ids(scorer, k=k, **rules)
    assert len(joined) == len(set(joined))
    if not cap:
        assert len(joined) == len(_ids(scorer, k=ITEMS, exclude_seen=exclude_seen))
    if not diversity:
        assert joined == _ids(scorer, k=ITEMS, **rules)


def test_each_impression_lowers_a_score_and_enough_of_them_leave_the_item_out(scorer: Scorer) -> None:
    before = _ids(scorer, k=ITEMS)
    first = before[0]
    assert _ids(scorer, k=ITEMS, shown={first: 3.0}) == before  # off unless asked for
    ranks = [_ids(scorer, k=ITEMS, shown={first: float(n)}, damping=0.2).index(first) for n in (0, 1, 3, 100)]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0
    often = scorer.recommend(Request(user="u1", k=ITEMS, shown={first: 100.0}, damping=0.2))
    assert often[ranks[-1]].score == pytest.approx(min(one.score for one in often), abs=1e-3)
    others = [item for item in before if item != first]
    assert _ids(scorer, k=ITEMS, shown={first: 3.0}, max_shown=3) == others
    assert _ids(scorer, k=ITEMS, shown={first: 2.9}, max_shown=3) == before


def test_an_impression_counts_half_after_its_half_life() -> None:
    day = 86_400.0
    shown = [("a", 100 * day), ("a", 93 * day), ("b", 86 * day), ("c", 101 * day)]
    assert count_impressions(shown, 100 * day) == {"a": 2.0, "b": 1.0, "c": 1.0}
    assert count_impressions(shown, 100 * day, half_life=7) == pytest.approx({"a": 1.5, "b": 0.25, "c": 1.0})


@pytest.mark.parametrize(
    "asked",
    [
        *(
            {"offset": -1},
            {"offset": "2"},
            {"offset": False},
            {"damping": 2},
            {"shown": {"i/1": np.nan}, "damping": 0.5},
        ),
        *({"diversity": np.nan}, {"diversity": -1}, {"diversity": 2}, {"diversity": "0.5"}),
    ],
)
def test_what_cannot_be_is_one_sentence(scorer: Scorer, asked: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        _ids(scorer, **asked)
