# SPDX-License-Identifier: Apache-2.0
"""Scores within rounding of each other: one order for single requests and for everybody, compiled or not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from legcf.core.arrays import FloatArray
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, QuantisedTable, ordered_products
from legcf.ranking.topk_numba import code_products
from legcf.scoring import settle
from legcf.scoring.scorer import Request, Scorer

from ..device.golden import coded, lists, near_ties, vectors

KINDS = near_ties(np.random.default_rng(4))


def prescribed(scorer: Scorer, user: int) -> FloatArray:
    """Return the scores of all items as the file format has them, list after list."""
    model = scorer.model
    profile, every = scorer.profile(Request(int(model.users.values[user]))), np.arange(len(model.items))  # type: ignore[union-attr]
    scores = model.item_rows.products(np.tile(profile.vector, (len(every), 1)), every)
    if model.item_bias is not None:
        scores += model.item_bias
    if model.lists is not None:
        model.lists.add_to(scores, profile.history, profile.relative)
    return scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 6, 20, 140])
def test_every_way_to_ask_gives_the_prescribed_order(kind: str, k: int) -> None:
    scorer = Scorer(KINDS[kind])
    fast, plain = (scorer.recommend_all(k, exclude_seen=False, compiled=compiled)[0] for compiled in (True, False))
    np.testing.assert_array_equal(fast, plain)
    for user in range(len(fast)):
        scores = prescribed(scorer, user)
        if not scorer.profile(Request(100 + user)).vector.any():
            continue
        order = np.lexsort((np.arange(len(scores)), -scores))[:k]
        np.testing.assert_array_equal(fast[user][: len(order)], order)
        found = scorer.recommend(Request(100 + user, k=k, exclude_seen=False))
        assert [one.id for one in found] == order.tolist()
        assert sum(np.float32(one.score) == scores[one.id] for one in found) > len(found) // 2


def test_what_is_asked_does_not_change_the_order() -> None:
    """A filter, a page and caps go through the same order."""
    scorer = Scorer(KINDS["near-codes-lists"])
    whole = [one.id for one in scorer.recommend(Request(104, k=60))]
    assert [one.id for one in scorer.recommend(Request(104, k=9, offset=11))] == whole[11:20]
    assert [one.id for one in scorer.recommend(Request(104, k=60, allow=whole[::3]))] == whole[::3]
    assert [one.id for one in scorer.recommend(Request(104, k=60, deny=whole[::3]))][:20] == [
        one for one in whole if one not in whole[::3]
    ][:20]


def test_scores_are_never_further_off_than_is_said() -> None:
    """Every reader's float32 scores are within half of what is taken to be apart."""
    rng = np.random.default_rng(5)
    for kind in KINDS:
        model = replace(KINDS[kind], lists=lists(rng, 130, 0.3, 40, 0.3))
        scorer = Scorer(model)
        for user in (0, 4, 9, 20):
            profile = scorer.profile(Request(100 + user))
            exact, fast = prescribed(scorer, user), scorer.scores(profile)
            order, known = scorer.order, len(profile.history)
            largest = order._largest(float(abs(fast).max()), known, profile.relative is not None)
            products = model.item_rows.reach * float(np.linalg.norm(profile.vector))
            bound = order._off(products, np.minimum(order._speakers, known), largest)
            assert np.all(np.abs(exact - fast) <= bound)
            assert float(np.median(bound)) < 1e-3 * float(abs(fast).max())


def test_ordered_products_are_what_fractions_give() -> None:
    rng = np.random.default_rng(6)
    for width in (1, 2, 3, 4, 5, 8, 31):
        one, other = vectors(rng, 9, width), vectors(rng, 9, width)
        for product, a, b in zip(ordered_products(one, other), one.tolist(), other.tolist(), strict=True):
            sums = [0.0] * 4
            for x, (left, right) in enumerate(zip(a, b, strict=True)):
                place = x % 4 if x < width // 4 * 4 else 0
                sums[place] = float(Fraction(sums[place]) + Fraction(left) * Fraction(right))
            assert product == np.float32((sums[0] + sums[1]) + (sums[2] + sums[3]))


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_sums_of_a_table_in_few_bits_are_exact(bits: int) -> None:
    rng = np.random.default_rng(7)
    table, queries = QuantisedTable.of(vectors(rng, 40, 130), bits), vectors(rng, 40, 130)
    grid = np.float64(2**24) * np.abs(queries).max(axis=1, keepdims=True)
    steps = table.values - (2**bits - 1) / 2
    for row, query in enumerate(queries + grid - grid):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(query, steps[row], strict=True))
        assert Fraction(float((query * steps[row])[::-1].sum())) == exact
    backwards = QuantisedTable(table.values[:, ::-1].copy(), table.scales, bits)
    np.testing.assert_array_equal(
        table.products(queries, np.arange(40)), backwards.products(queries[:, ::-1].copy(), np.arange(40))
    )


@pytest.mark.parametrize("width", [1, 6, 64, 131])
def test_compiled_products_are_those_of_numpy(width: int) -> None:
    rng = np.random.default_rng(8)
    table = coded(rng, 300, width, 50, 3)
    narrow = CodebookTable(
        table.columns, rng.integers(-127, 128, (300, 3)).astype(np.int8), table.codebook, rng.random(300, np.float32)
    )
    queries, asked, which = vectors(rng, 20, width), rng.integers(0, 20, 500), rng.integers(0, 300, 500)
    for rows in (table, narrow):
        expected = rows.products(queries[asked], which)
        np.testing.assert_array_equal(code_products(rows, queries, asked, which), expected)
        np.testing.assert_allclose(expected, (rows.vectors(which) * queries[asked]).sum(1), rtol=1e-3, atol=1e-4)


def test_many_equals_are_all_looked_at(monkeypatch: pytest.MonkeyPatch, model: ServedModel) -> None:
    monkeypatch.setattr(settle, "_TOGETHER", 7)
    for kind in ("near-codes", "near-table"):
        scorer = Scorer(KINDS[kind])
        order = np.lexsort((np.arange(130), -prescribed(scorer, 3)))
        assert scorer.recommend_all(3, exclude_seen=False)[0][3].tolist() == order[:3].tolist()
