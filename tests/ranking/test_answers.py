# SPDX-License-Identifier: Apache-2.0
"""Frames of answers: a row for each, ids of one kind, marks where nothing is known."""

import numpy as np
import polars as pl
import pytest

from legcf.data.ids import IdMap
from legcf.ranking.answers import Answers, answer_frame, id_column, most_similar


@pytest.mark.parametrize(
    ("asked", "is_text", "expected"),
    [
        ([3, "4", None], False, [3, 4, None]),
        ([3, "somebody"], False, ["3", "somebody"]),
        ([3, "04"], False, ["3", "04"]),
        (["3", 4, None], True, ["3", "4", None]),
        ([2**64 - 1], False, [2**64 - 1]),
        ([None], False, [None]),
    ],
)
def test_a_column_holds_ids_of_one_kind(asked: list[int | str | None], is_text: bool, expected: list[object]) -> None:
    column = id_column("user", asked, is_text)
    assert column.to_list() == expected
    assert column.dtype != pl.Null


def test_a_row_for_each_answer_and_none_for_what_is_missing() -> None:
    ranked = np.array([[2, 0], [1, -1]], dtype=np.int32)
    scores = np.array([[3, 2], [1, -np.inf]], dtype=np.float32)
    answers = Answers(ranked, scores, np.array([False, True]))
    frame = answer_frame(pl.Series("user", ["a", "b"]), answers, IdMap.of([10, 11, 12], "item"), ["x", "y", "z"])
    assert frame.rows() == [
        ("a", 1, 12, 3.0, "z", None),
        ("a", 2, 10, 2.0, "x", None),
        ("b", 1, 11, 1.0, "y", "popular"),
    ]
    assert frame.columns == ["user", "rank", "item", "score", "title", "fallback"]
    plain = answer_frame(pl.Series("to", ["a", "b"]), Answers(ranked, scores), IdMap.of(["p", "q", "r"]), named="user")
    assert plain.columns == ["to", "rank", "user", "score"]


def test_most_similar_rows_by_cosine() -> None:
    vectors = np.array([[1, 0], [5, 0.1], [0, 1], [0, 0]], dtype=np.float32)
    found = most_similar(vectors, np.array([0, 3]), 10)
    assert found.ranked[0].tolist() == [1, 2, 3, -1]
    assert found.scores[0, 0] == pytest.approx(1, abs=1e-3)
    assert found.ranked[1].tolist() == [0, 1, 2, -1], "ties go to the lower number"
