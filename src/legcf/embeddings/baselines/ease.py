# SPDX-License-Identifier: Apache-2.0
"""Regress every item on all others in closed form (EASE).

    B = −P / diag(P) off the diagonal, 0 on it,     P = (RᵀR + λI)⁻¹

Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019. P has a number for every two items, so beyond
`dense_items` each item is regressed only on the items most like it: still least squares, row by row, and nothing of the
size of P is ever in memory. Sparse approximations of P itself: Spišák et al., SANSA, RecSys 2023.
"""

from typing import Literal

import numpy as np
from pydantic import Field
from scipy.linalg import lapack

from legcf.core.config import MethodConfig, RunConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.baselines.rowless import Rowless
from legcf.embeddings.search_space import OneOf, Space
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import find_candidates, solve, whole_gram


class EaseConfig(MethodConfig):
    name: Literal["ease"] = "ease"
    ridge: float = Field(2.0, gt=0, description="λ, in mean numbers of users of an item, so that one suits all data")
    dense_items: int = Field(10_000, ge=0, description="most items with all weights solved; 16 bytes for every two")
    candidates: int = Field(100, ge=1, description="items that may speak for an item, where there are more")


class Ease(Rowless[EaseConfig]):
    Config = EaseConfig
    summary = "every item regressed on all others in closed form; on those most like it where items are many"
    citation = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019"

    @classmethod
    def search_space(cls, method: EaseConfig, config: RunConfig) -> Space:
        return {"method.ridge": OneOf((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0))}

    def item_lists(self, train: Interactions) -> ItemLists:
        if self.num_items <= self.config.dense_items:
            return _dense_lists(train, self.config.ridge * train.num_pairs / max(train.num_items, 1))
        by_item = train.transposed()
        candidates = find_candidates(train, self.config.candidates, by_item)
        return solve(train, candidates, (self.config.ridge,), 0.0, by_item).lists(0, user_power=0.0)


def _dense_lists(train: Interactions, ridge: float) -> ItemLists:
    """Solve every weight, in the order of the items."""
    size = train.num_items
    gram = whole_gram(train, np.ones(train.num_users, dtype=np.float32))
    gram[np.diag_indices(size)] += np.float32(ridge)
    wide = np.asfortranarray(gram, dtype=np.float64)  # as LAPACK has it, so that nothing is copied again
    inverse = lapack.dpotri(lapack.dpotrf(wide, lower=True, overwrite_a=True)[0], lower=True, overwrite_c=True)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T  # only the lower half is solved
    weights = (-inverse / inverse.diagonal()).astype(np.float32)  # column i: what speaks for i
    others = ~np.eye(size, dtype=np.bool_)
    columns = np.broadcast_to(np.arange(size, dtype=np.int32), (size, size))[others]
    indptr = np.arange(0, size * max(size - 1, 0) + 1, max(size - 1, 1), dtype=np.int64)
    return ItemLists(Interactions(indptr[: size + 1], columns, size), weights[others], user_power=0.0)
