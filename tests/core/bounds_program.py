# SPDX-License-Identifier: Apache-2.0
"""Runs compiled loops at their edges with every index checked; `test_bounds` starts it in a process of its own.

Loops run one after the other here: an error inside a parallel one would be lost with its thread.
"""

import sys
from pathlib import Path
from typing import Any

import numba

from legcf.core import jit


def _checked(**options: Any) -> Any:
    """`jit.njit` for loops that check every index; nothing comes from a cache, where unchecked ones may be."""
    return numba.njit(boundscheck=True, **{**options, "cache": False, "parallel": False})


jit.njit = _checked

import numpy as np  # noqa: E402

from legcf.assignment.matching_pursuit import encode  # noqa: E402
from legcf.core.errors import UserError  # noqa: E402
from legcf.data.interactions import Interactions  # noqa: E402
from legcf.data.preparing import kernels  # noqa: E402
from legcf.evaluation.evaluate import find_hits  # noqa: E402
from legcf.factorisation.als import AlsSettings  # noqa: E402
from legcf.factorisation.half_step import solve_side  # noqa: E402
from legcf.ranking.item_lists.lists import ItemLists  # noqa: E402
from legcf.ranking.item_lists.ridge import find_candidates, nearest_lists, solve  # noqa: E402
from legcf.ranking.ranking import Ranking  # noqa: E402
from legcf.ranking.rerank import Reranker  # noqa: E402
from legcf.ranking.tables.embedding_table import CodebookTable  # noqa: E402
from legcf.ranking.tables.pooling import Pooling  # noqa: E402
from legcf.ranking.tables.pooling_numba import pooled_codes, pooled_users  # noqa: E402
from legcf.ranking.topk import rank  # noqa: E402
from legcf.ranking.topk_numba import search_codes, top_k  # noqa: E402
from legcf.recommender import Recommender  # noqa: E402
from legcf.scoring.scorer import Scorer  # noqa: E402
from tests.helpers import planted  # noqa: E402

RNG = np.random.default_rng(0)


def random_pairs(users: int, items: int, share: float) -> Interactions:
    return Interactions.from_pairs(*np.nonzero(RNG.random((users, items)) < share), users, items)


def random_floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def check_checking() -> None:
    """An index that is out of range must be found, or all else here says nothing."""

    @_checked()
    def beyond(values):  # type: ignore[no-untyped-def]
        return values[len(values)]

    try:
        beyond(np.zeros(3))
    except IndexError:
        return
    raise AssertionError("indices are not checked")


def check_top_k() -> None:
    for users, items in ((0, 5), (3, 0), (1, 1), (70, 9)):
        seen, nothing = random_pairs(users, items, 0.3), Interactions.empty(users, items)
        everything = random_pairs(users, items, 2.0)
        lists = ItemLists(random_pairs(items, items, 0.4), np.zeros(0, dtype=np.float32))
        lists = ItemLists(lists.pairs, random_floats(lists.num_entries))
        none = ItemLists(Interactions.empty(items, items), random_floats(0))
        codes = CodebookTable(
            RNG.integers(0, 4, (items, 2)).astype(np.uint16), random_floats(items, 2), random_floats(4, 3)
        )
        projected = random_floats(users, 4)
        pooled_codes(Pooling(0.5, 0.5, seen.item_degrees), seen, codes)
        for k in (0, 1, items, items + 3):
            for left_out in (nothing, seen, everything):
                top_k(random_floats(users, items), k, left_out)
                for bias in (None, random_floats(items)):
                    search_codes(codes, projected, k, bias, left_out, None, seen)
                    for some in (lists, none):
                        search_codes(codes, projected, k, bias, left_out, some, seen)
                for some in (None, lists, none):
                    ranking = Ranking(random_floats(users, 3), random_floats(items, 3), seen, lists=some)
                    rank(ranking, k, seen=left_out)
                    again = Reranker()
                    for _ in range(3):
                        again(ranking, k, seen=left_out)
            find_hits(np.full((users, k), -1, dtype=np.int32), np.arange(users), seen)


def check_lists() -> None:
    for users, items in ((0, 0), (0, 4), (3, 0), (1, 1), (40, 12)):
        for share in (0.0, 0.4, 2.0):
            train = random_pairs(users, items, share)
            by_item = train.transposed()
            for count in (1, items + 5):
                candidates = find_candidates(train, count, by_item)
                solve(train, candidates, (1.0, 2.0), 0.5, by_item)
                nearest_lists(train, count, 500.0)  # weights of users that round to nothing
            lists = nearest_lists(train, 3, 1.0)
            lists.add_for(np.zeros((users, items), dtype=np.float32), train)
            pooled_users(Pooling(0.5, 0.5, train.item_degrees), train, random_floats(items, 3))
            if train.num_pairs:
                solve_side(train.to_scipy(), random_floats(users, 3), random_floats(items, 3), AlsSettings())


def check_others() -> None:
    for rows, atoms, t in ((0, 3, 1), (5, 1, 1), (5, 3, 3), (5, 3, 7)):
        encode(random_floats(rows, 4), random_floats(atoms, 4), min(t, atoms))
    indptr = np.array([0, 0, 1, 40], dtype=np.int64)
    for count in (0, 1, 30, 100):
        kernels.smallest_of_each_row(indptr, RNG.random(40), np.full(3, count))
    for text in (b"", b"\n", b"1", b"1 2", b"1 2 3 4 5 6 7 8 9", b" 1\t2\r\n\n3", b"1 -2", b"1 \0", b"9" * 40):
        kernels.parse_lines(np.frombuffer(text, dtype=np.uint8))
    kernels.write_numbers(np.array([0, 0, 2]), np.array([1, 2**62]), np.array([0, 2**62]))


def check_training() -> None:
    """Run the loops of graph, sampler, losses and factorisation, with users and items that have no pairs."""
    for preset in ("graph", "default"):
        settings = {"method_options": {"c": 8, "dim": 8}, "training": {"epochs": 1, "batch_size": 200}}
        Recommender("legcf", preset=preset, **settings).fit(planted(45, 45, cold=5))


def check_files(folder: Path) -> None:
    """Whatever a file says: it is refused, or all of its users are answered."""
    for path in sorted(folder.glob("*.legcf")):
        try:
            scorer = Scorer.load(path)
        except UserError:
            continue
        for k in (1, len(scorer.model.items) + 3):
            if scorer.model.users is not None:
                scorer.recommend_all(k, compiled=True)


if __name__ == "__main__":
    check_checking()
    check_top_k()
    check_lists()
    check_others()
    check_training()
    check_files(Path(sys.argv[1]))
    print("all indices are within their arrays")
