# SPDX-License-Identifier: Apache-2.0
"""Rank every item for every user: products block by block, and the best of each block compiled."""

import sys
from collections.abc import Callable

import numpy as np

from legcf.core.arrays import FloatArray, Positions
from legcf.data.interactions import Interactions
from legcf.ranking.popularity import trust
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.ranking.topk_numba import reaches_few, search_codes, top_k
from legcf.ranking.topk_numpy import TopK, empty_top_k

_CODED_USERS = 2048  # whose projections on a codebook are held at a time
_BLOCK_BYTES = 16 * 2**20  # scores held at a time: large enough for a fast product, small enough to stay near the cache


def rank(ranking: Ranking, k: int, users: Positions | None = None, seen: Interactions | None = None) -> TopK:
    """Return the k best items of each user (all by default) and their scores, best first; −1 and −inf where fewer are.

    `seen` are pairs of all users that are left out. Ties go to the lower item number.
    """
    asked_users = np.arange(ranking.num_users) if users is None else np.asarray(users)
    hidden = Interactions.empty(len(asked_users), ranking.num_items) if seen is None else seen.of_users(asked_users)
    codes = None if ranking.rows is None else ranking.rows.codes
    if codes is None or not reaches_few(ranking.lists, ranking.histories):
        return _rank_all(ranking, k, asked_users, hidden)
    ranked, scores = _rank_codes(ranking, codes, k, asked_users, hidden)
    cold = np.flatnonzero(~ranking.users[asked_users].any(axis=1))
    if len(cold):
        ranked[cold], scores[cold] = _rank_all(ranking, k, asked_users[cold], hidden.of_users(cold))
    return ranked, scores


def _rank_codes(ranking: Ranking, codes: CodebookTable, k: int, asked_users: Positions, hidden: Interactions) -> TopK:
    """Rank by codes instead of vectors: t products an item, where its vector would take d."""
    ranked, scores = empty_top_k(len(asked_users), min(k, ranking.num_items))
    for start in range(0, len(asked_users), _CODED_USERS):
        block = slice(start, min(start + _CODED_USERS, len(asked_users)))
        users = asked_users[block]
        ranked[block], scores[block] = search_codes(
            codes,
            codes.project(ranking.users[users]),
            ranked.shape[1],
            ranking.bias,
            hidden.of_users(np.arange(start, block.stop)),
            ranking.lists,
            ranking.histories.of_users(users),
        )
    return ranked, scores


def _rank_all(ranking: Ranking, k: int, asked_users: Positions, hidden: Interactions) -> TopK:
    """Make every score of these users."""

    def complete(scores: FloatArray, rows: slice) -> None:
        ranking.add_bias_and_history(scores, asked_users[rows])

    return _rank(ranking.users, asked_users, ranking.items, k, hidden, complete)


def similar(ranking: Ranking, items: Positions, k: int) -> TopK:
    """Return the k items most like each of some items, and how alike they are.

    Likeness is the cosine of the vectors, bias apart, shrunk where only few users decide (`popularity.trust`).
    """
    unit = ranking.items / np.maximum(np.linalg.norm(ranking.items, axis=1, keepdims=True), np.float32(1e-12))
    themselves = Interactions(np.arange(len(items) + 1, dtype=np.int64), items.astype(np.int32), ranking.num_items)
    trusted = trust(ranking.popularity)

    def complete(scores: FloatArray, rows: slice) -> None:
        scores *= trusted

    return _rank(unit, items, unit, k, themselves, complete)


def _rank(
    vectors: FloatArray,
    queries: Positions,
    against: FloatArray,
    k: int,
    hidden: Interactions,
    complete: Callable[[FloatArray, slice], None],
) -> TopK:
    """Return the top k of the queried vectors' inner products, completed block by block, without the `hidden` items."""
    ranked, scores = empty_top_k(len(queries), min(k, len(against)))
    across = np.require(against, np.float32, ["C", "W"])  # torch takes no read-only array
    rows = max(1, _BLOCK_BYTES // (4 * max(len(against), 1)))
    buffer = np.empty((min(rows, max(len(queries), 1)), len(against)), dtype=np.float32)
    for start in range(0, len(queries), rows):
        block = slice(start, min(start + rows, len(queries)))
        out = buffer[: block.stop - start]
        _multiply(vectors[queries[block]].astype(np.float32, copy=False), across, out)
        complete(out, block)
        hidden_here = hidden.of_users(np.arange(start, block.stop))
        ranked[block], scores[block] = top_k(out, ranked.shape[1], hidden_here)
    return ranked, scores


def _multiply(queries: FloatArray, against: FloatArray, out: FloatArray) -> None:
    """Write queries · againstᵀ into `out`: by torch where it is imported already, by numpy where nothing else needs it.

    Torch gives equal vectors equal products wherever they stand, so that ties go to the lower number. OpenBLAS may
    differ in the last bit between columns and numbers of rows.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        np.matmul(queries, against.T, out=out)
        return
    one, other = (torch.from_numpy(np.require(array, np.float32, ["C", "W"])) for array in (queries, against))
    torch.mm(one, other.T, out=torch.from_numpy(out))
