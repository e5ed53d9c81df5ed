# SPDX-License-Identifier: Apache-2.0
"""Tokens as columns, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.features.coder import hashed_column, murmur3, words

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_known_values() -> None:
    assert [murmur3(text) for text in (b"", b"a", b"hello", b"hello, world")] == [0, 1009084850, 613153351, 345750399]


@given(st.lists(TEXTS, max_size=5), st.sampled_from([1, 7, 1024]))
def test_columns_and_signs_of_the_feature_hasher(tokens: list[str], width: int) -> None:
    sklearn = pytest.importorskip("sklearn.feature_extraction")
    wanted = sklearn.FeatureHasher(width, input_type="string").transform([tokens]).toarray()[0]
    found = np.zeros(width)
    for token in tokens:
        at, sign = hashed_column(token, width)
        found[at] += sign
    assert np.array_equal(found, wanted)


@given(TEXTS)
def test_words_of_the_hashing_vectorizer(text: str) -> None:
    sklearn = pytest.importorskip("sklearn.feature_extraction.text")
    assert words(text) == sklearn.HashingVectorizer(strip_accents="unicode").build_analyzer()(text)
