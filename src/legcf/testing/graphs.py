# SPDX-License-Identifier: Apache-2.0
"""Make small graphs for tests: random ones for algebra, and planted communities whose right ranking is known."""

import numpy as np
from hypothesis import strategies as st

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions

COMMUNITIES = 4


def interactions(pairs: list[tuple[int, int]], num_users: int, num_items: int) -> Interactions:
    array = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(array[:, 0], array[:, 1], num_users, num_items)


@st.composite
def graphs(draw: st.DrawFn) -> Interactions:
    """Draw any bipartite graph: users and items without pairs, several components, even no pairs at all."""
    num_users, num_items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pairs = draw(st.sets(st.tuples(st.integers(0, num_users - 1), st.integers(0, num_items - 1)), max_size=20))
    return interactions(list(pairs), num_users, num_items)


def random_interactions(num_users: int, num_items: int, density: float, seed: int) -> Interactions:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((num_users, num_items)) < density)
    return Interactions.from_pairs(users, items, num_users, num_items)


def planted(num_users: int = 80, num_items: int = 80, seed: int = 0, cold: int = 0) -> Dataset:
    """Return a dataset of four communities: user u belongs to u % 4, item i to i % 4; a user has half of its items.

    Of the other half a third validates and the rest tests, so a perfect model shows exactly a user's own community.
    The last `cold` users and items have no pairs at all.
    """
    rng = np.random.default_rng(seed)
    parts: tuple[list[tuple[int, int]], ...] = ([], [], [])
    for user in range(num_users - cold):
        own = rng.permutation(np.arange(user % COMMUNITIES, num_items - cold, COMMUNITIES))
        half, third = len(own) // 2, len(own) // 2 + len(own) // 6
        for part, items in zip(parts, (own[:half], own[half:third], own[third:]), strict=True):
            part += [(user, int(item)) for item in items]
    train, validation, test = (interactions(part, num_users, num_items) for part in parts)
    users = IdMap.consecutive(num_users, "user")
    return Dataset("planted", "ratio", users, IdMap.consecutive(num_items, "item"), train, validation, test)
