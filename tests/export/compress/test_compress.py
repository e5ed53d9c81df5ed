# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import numpy as np
import pytest

import legcf
from legcf.core.errors import UserError
from legcf.export.compress.compress import Compressed
from legcf.export.compress.sizes import Sizes, for_budget, ladder


def vectors(rows: int, width: int = 8, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(dtype)


def score_error(coded: Compressed, users: np.ndarray, items: np.ndarray) -> float:
    assert coded.user_vectors is not None
    scores = users @ items.T
    return float(np.linalg.norm(coded.user_vectors @ coded.item_vectors.T - scores) / np.linalg.norm(scores))


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_scores_survive(dtype: str) -> None:
    users, items = vectors(90) * 10, vectors(70, seed=1, dtype=np.float64)
    coded = legcf.compress(users, items, c=60, t=5, dtype=dtype)
    assert coded.sizes == Sizes(60, 5)
    assert coded.num_values == 60 * 8 + 5 * 160
    assert coded.num_values_before == 160 * 8
    assert coded.score_error == pytest.approx(score_error(coded, users, items), rel=1e-3)
    assert coded.score_error < 0.2
    assert 0 < coded.relative_error < coded.score_error


def test_more_values_less_error() -> None:
    users, items = vectors(90), vectors(70, seed=1)
    errors = [legcf.compress(users, items, c, t).relative_error for c, t in ((20, 1), (20, 3), (80, 3), (80, 6))]
    assert errors == sorted(errors, reverse=True)


def test_the_scale_of_a_side_does_not_matter() -> None:
    users, items = vectors(90), vectors(70, seed=1)
    plain = legcf.compress(users, items, 30, 3, dtype="float16")
    scaled = legcf.compress(users * 64, items / 64, 30, 3, dtype="float16")
    assert plain.score_error == pytest.approx(scaled.score_error, rel=0.05)


def test_same_seed_same_codes() -> None:
    users, items = vectors(90), vectors(70, seed=1)
    first, second = (legcf.compress(users, items, 30, 3, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.codebook, second.codebook)
    np.testing.assert_array_equal(first.items.weights, second.items.weights)
    other = legcf.compress(users, items, 30, 3, seed=5)
    assert not np.array_equal(first.codebook, other.codebook)


def test_items_alone() -> None:
    items = vectors(70)
    coded = legcf.compress(None, items, 40, 4)
    assert coded.users is None
    assert coded.score_error is None
    similar = items @ items.T
    found = coded.item_vectors @ coded.item_vectors.T
    assert np.linalg.norm(found - similar) / np.linalg.norm(similar) < 0.3


def test_directions_without_weight_cost_nothing() -> None:
    users, items = vectors(90), vectors(70, seed=1)
    items[:, 5:] = 0
    coded = legcf.compress(users, items, 30, 3)
    assert coded.codebook.shape == (30, 5)
    assert coded.original_width == 8


def test_the_values_are_those_that_a_file_gives_back() -> None:
    coded = legcf.compress(vectors(90), vectors(70, seed=1), 30, 3, dtype="float16")
    np.testing.assert_array_equal(coded.codebook, coded.codebook.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(coded.items.weights, coded.items.weights.astype(np.float16).astype(np.float32))


def test_zero_rows_are_refused_or_kept_without_weight() -> None:
    users, items = vectors(90), vectors(70, seed=1)
    items[[7, 9]] = 0
    with pytest.raises(UserError, match=r"2 of the 70 item vectors are all zeros, the first in row 7.*keep_zero_rows"):
        legcf.compress(users, items, 30, 3)
    coded = legcf.compress(users, items, 30, 3, keep_zero_rows=True)
    assert not coded.items.weights[[7, 9]].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_no_numbers(bad: float) -> None:
    users, items = vectors(90, dtype=np.float64), vectors(70, seed=1)
    users[5, 2] = bad
    with pytest.raises(UserError, match="row 5"):
        legcf.compress(users, items, 30, 3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"c": 161, "t": 2}, "choose c ≤ 160"),
        ({"c": 3, "t": 4}, "choose t ≤ c"),
        ({"c": 0, "t": 0}, "both start at 1"),
        ({"budget": 100}, "too small.*168"),
        ({"budget": 400, "t": 3}, "too small|leaves"),
        ({"budget": 400, "c": 40}, "smaller c"),
        ({"budget": 1000, "c": 40, "t": 2}, "nothing left to solve"),
        ({"c": 100, "memory_cap_mb": 0.1}, "raise it or choose a smaller c"),
        ({"dtype": "int4"}, "int8 or float16"),
    ],
)
def test_sizes_that_cannot_be(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        legcf.compress(vectors(90), vectors(70, seed=1), **arguments)  # type: ignore[arg-type]


def test_widths_and_shapes() -> None:
    with pytest.raises(UserError, match="8 columns and item vectors 7"):
        legcf.compress(vectors(90), vectors(70, 7), 30, 3)
    with pytest.raises(UserError, match="matrix of real numbers"):
        legcf.compress(vectors(90)[0], vectors(70), 30, 3)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e4, 1e8])
def test_tables_of_any_scale(scale: float) -> None:
    coded = legcf.compress(vectors(90) * scale, vectors(70, seed=1) * scale, 60, 5)
    assert coded.score_error is not None
    assert coded.score_error < 0.2


def test_scales_beyond_float32_products() -> None:
    for scale, dtype in ((1e12, "int8"), (1e-12, "int8"), (1e-8, "float16")):
        with pytest.raises(UserError, match=r"rankings do not change"):
            legcf.compress(vectors(90) * scale, vectors(70) * scale, 30, 3, dtype=dtype)


def test_budget_is_kept_and_used() -> None:
    for rows, width in ((160, 8), (70_839, 128), (5000, 64)):
        for times in (1.2, 2.5, 4.0, 9.0, 20.0):
            budget = int(times * (rows + width))
            sizes = for_budget(budget, rows, width)
            assert 1 <= sizes.t <= sizes.c <= rows
            assert sizes.values(rows, width) <= budget
            assert sizes.c == rows or sizes.values(rows, width) > budget - rows - width
    assert for_budget(205_678, 70_839, 128, t=2) == Sizes(500, 2)
    assert for_budget(205_678, 70_839, 128, c=500) == Sizes(500, 2)


def test_the_ladder_rises() -> None:
    rungs = [sizes.values(70_839, 128) for sizes in ladder(70_839, 128, 10_000)]
    assert rungs == sorted(rungs)
    assert rungs[0] < 150_000
    assert rungs[-1] > 3_000_000


def test_memory_stays_within_the_cap() -> None:
    """A mapped table larger than the cap: rows are worked on in a file, never all in memory."""
    users, items = vectors(20_000, 64), vectors(10_000, 64, seed=1)
    legcf.compress(users[:300], items[:300], 50, 2, rounds=1)  # compiled before it is measured
    tracemalloc.start()
    legcf.compress(users, items, 50, 2, rounds=1, memory_cap_mb=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    allowed = 3 * 2**20 + 5 * 30_000 * 2 * 8
    assert users.nbytes + items.nbytes > allowed  # else this would show nothing
    assert peak < allowed
