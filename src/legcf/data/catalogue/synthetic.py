# SPDX-License-Identifier: Apache-2.0
"""Generate interactions with planted communities and power-law degrees: data whose right answer is known.

User u and item i belong to the communities u % communities and i % communities. Low numbers are the busy ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import sorted_unique
from legcf.core.errors import UserError
from legcf.core.files import folder_written_whole, written_whole
from legcf.core.plugins import find_part
from legcf.core.progress import progress
from legcf.data.preparing import kernels

# Weight of rank r is (r + 1)^-0.6, which gives degrees about as uneven as Gowalla's.
_EXPONENT = 0.6
_PAIRS_A_BLOCK = 2_000_000
_TEST_SHARE = 0.2
_ROUNDS_BY_RANK, _ROUNDS_INSIDE = 4, 20


@dataclass(frozen=True)
class Planted:
    """Hold the size of a synthetic graph. A pair leaves its community with probability `noise`."""

    num_users: int
    num_items: int
    num_pairs: int
    communities: int = 20
    noise: float = 0.05

    def __post_init__(self) -> None:
        if min(self.num_users, self.num_items, self.communities) < 1 or not 0 <= self.noise <= 1:
            raise UserError("Users, items and communities must be at least 1, and the noise from 0 to 1.")
        if self.communities > min(self.num_users, self.num_items):
            raise UserError("There cannot be more communities than users or than items.")
        if not max(self.num_users, self.num_items) <= self.num_pairs <= self.num_users * self.num_items // 2:
            raise UserError(
                f"{self.num_pairs:,} pairs do not suit {self.num_users:,} users and {self.num_items:,} items: each "
                "must get a pair, and at most half of all possible pairs can be had."
            )

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Return the pairs of each user: falling with the rank, at most half of a community (if that is enough)."""
        weights = np.arange(1, self.num_users + 1, dtype=np.float64) ** -_EXPONENT
        ceiling = max(self.num_items // self.communities // 2, -(-5 * self.num_pairs // (4 * self.num_users)), 1)
        scale = self.num_pairs / weights.sum()
        for _ in range(100):
            degrees = np.clip(weights * scale, 1, ceiling)
            scale *= self.num_pairs / degrees.sum()
        # Rounding the running sum makes whole numbers of the same total.
        ends = np.floor(np.cumsum(degrees) + 0.5).astype(np.int64)
        return np.sort(np.diff(ends, prepend=0))[::-1].copy()

    @cached_property
    def first_users(self) -> NDArray[np.int64]:
        """Return for each item a user of its community that surely has it, so that no item is without pairs."""
        item = np.arange(self.num_items)
        members = (self.num_users - item % self.communities - 1) // self.communities + 1
        return item % self.communities + self.communities * (item // self.communities % members)

    def blocks(self, rng: np.random.Generator) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the first user of a range, the bounds of its users' items, and the items, sorted; range after range."""
        ends = np.cumsum(self.degrees)
        by_first_user = np.argsort(self.first_users, kind="stable")
        first_users = self.first_users[by_first_user]
        start = 0
        while start < self.num_users:
            done = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, done + _PAIRS_A_BLOCK)), start + 1)
            low, high = np.searchsorted(first_users, [start, stop])
            rows = first_users[low:high] - start
            yield start, *self._draw(rng, start, self.degrees[start:stop], rows, by_first_user[low:high])
            start = stop

    def _draw(
        self,
        rng: np.random.Generator,
        start: int,
        degrees: NDArray[np.int64],
        rows: NDArray[np.int64],
        items: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys = sorted_unique(rows * self.num_items + items)
        counts = np.bincount(keys // self.num_items, minlength=len(degrees))
        rounds = 0
        while np.any(counts < degrees):
            rows = np.repeat(np.arange(len(degrees)), np.maximum(degrees - counts, 0))
            drawn = self._items_for((rows + start) % self.communities, rounds, rng)
            keys = sorted_unique(np.concatenate([keys, rows * self.num_items + drawn]))
            counts = np.bincount(keys // self.num_items, minlength=len(degrees))
            rounds += 1
        return np.concatenate([[0], np.cumsum(counts)]), keys % self.num_items

    def _items_for(self, community: NDArray[np.int64], rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw an item for each community; repeated draws are drawn again, ever more evenly so that it ends."""
        members = (self.num_items - community - 1) // self.communities + 1
        ranks = _ranked(members, rng) if rounds < _ROUNDS_BY_RANK else rng.integers(members)
        noise = self.noise if rounds < _ROUNDS_INSIDE else 1.0
        anyone = rng.integers(self.num_items, size=len(community))
        return np.where(rng.random(len(community)) < noise, anyone, ranks * self.communities + community)


def write_csv(shape: Planted, seed: int, path: Path, quiet: bool = False) -> int:
    """Stream a graph into a table with the columns user and item; return the number of pairs."""
    written = 0
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        file.write(b"user,item\n")
        for users, bounds, items in _streamed(shape, seed, path, quiet):
            text = kernels.write_numbers(np.arange(len(items) + 1), np.repeat(users, np.diff(bounds)), items)
            text[text == ord(" ")] = ord(",")
            file.write(text.data)
            written += len(items)
    return written


def write_folder(shape: Planted, seed: int, folder: Path, quiet: bool = False) -> int:
    """Stream a graph into a LightGCN folder; a fifth of each user's items, at random, goes to test.txt."""
    splitting = np.random.default_rng([seed, 1])
    written = 0
    with (
        folder_written_whole(folder) as temporary,
        open(temporary / "train.txt", "wb") as train,
        open(temporary / "test.txt", "wb") as test,
    ):
        for users, bounds, items in _streamed(shape, seed, folder, quiet):
            # An item's sure user trains on it, so that no test item is unseen in train.txt.
            sure = shape.first_users[items] == np.repeat(users, np.diff(bounds))
            keys = np.where(sure, np.inf, splitting.random(len(items)))
            counts = np.minimum(np.floor(np.diff(bounds) * _TEST_SHARE + 0.5), np.diff(bounds) - 1).astype(np.int64)
            testing = kernels.smallest_of_each_row(bounds, keys, counts) & ~sure
            for file, marked in ((train, ~testing), (test, testing)):
                passed = np.concatenate([[0], np.cumsum(marked)])
                file.write(kernels.write_numbers(passed[bounds], users, items[marked]).data)
            written += len(items)
    return written


def _streamed(
    shape: Planted, seed: int, path: Path, quiet: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield users, the bounds of their items, and the items, range after range."""
    with progress(f"Generating {path.name}", shape.num_pairs, "pairs", quiet) as task:
        for start, bounds, items in shape.blocks(np.random.default_rng(seed)):
            yield np.arange(start, start + len(bounds) - 1), bounds, items
            task.advance(len(items))


def _ranked(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw for each count a rank below it, with a weight of about (rank + 1)^-0.6: the inverse of its integral."""
    power = 1.0 - _EXPONENT
    ranks = (1.0 + rng.random(len(counts)) * ((counts + 1.0) ** power - 1.0)) ** (1.0 / power) - 1.0
    return np.minimum(ranks.astype(np.int64), counts - 1)


PRESETS = {
    "yelp2020": Planted(71_135, 45_063, 1_782_999),
    "amazon-book": Planted(52_643, 91_599, 2_984_108),
    "1e8": Planted(1_000_000, 500_000, 100_000_000, communities=100),
}


def planted_shape(preset: str | None, **sizes: float | None) -> Planted:
    """Return the sizes of a preset, with those that are set in its stead."""
    base = {} if preset is None else vars(find_part("preset", preset, PRESETS))
    shape: dict[str, Any] = {**base, **{name: size for name, size in sizes.items() if size is not None}}
    if not {"num_users", "num_items", "num_pairs"} <= set(shape):
        raise UserError("Say `--preset`, or all of `--users`, `--items` and `--pairs`.")
    return Planted(**shape)
