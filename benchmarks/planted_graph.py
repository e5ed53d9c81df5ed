# SPDX-License-Identifier: Apache-2.0
"""Draw a dataset with planted communities in memory, for benchmarks and tests."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from legcf.data.catalogue.synthetic import Planted
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.data.preparing.blocks import Batch
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import build_in_memory


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drawn(PairSource):
    """Draw the pairs of a planted graph; another call of `batches` draws others."""

    shape: Planted
    rng: np.random.Generator

    def batches(self) -> Iterator[Batch]:
        for start, bounds, items in self.shape.blocks(self.rng):
            users = np.repeat(np.arange(start, start + len(bounds) - 1, dtype=np.int32), np.diff(bounds))
            yield Batch(users, items.astype(np.int32))


def planted(
    num_users: int, num_items: int, num_pairs: int, communities: int, rng: np.random.Generator, noise: float = 0.05
) -> Dataset:
    """Draw a dataset in memory, split by `ratio`. Every user and every item has at least one pair."""
    shape = Planted(num_users, num_items, num_pairs, communities, noise)
    options = DataOptions(split_seed=int(rng.integers(2**31)))
    source = _Drawn(
        name="synthetic",
        where=f"synthetic data with {communities} communities and noise {noise}",
        users=IdMap.consecutive(num_users, "user"),
        items=IdMap.consecutive(num_items, "item"),
        num_rows=num_pairs,
        shape=shape,
        rng=rng,
    )
    return build_in_memory(source, options)
