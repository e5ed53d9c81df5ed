# SPDX-License-Identifier: Apache-2.0
"""Sort pairs into canonical order (by user, then item), in blocks of users, in memory or spilled to disk.

However many blocks there are, going through them gives the same pairs in the same order, so every split, hash and count
is independent of how much memory there was.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legcf.core.files import written_whole
from legcf.data.preparing import kernels

# Pairs that are sorted at once: a block takes about 30 bytes a pair while it is being sorted.
BLOCK_PAIRS = 4_000_000
_BUCKETS = 256


class Batch(NamedTuple):
    """Hold pairs as they come from a source; `times`, `testing` (pair is from test.txt) and `weights` may be absent."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    times: NDArray[Any] | None = None
    testing: NDArray[np.bool_] | None = None
    weights: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Block:
    """Hold all pairs of a range of users: CSR over the range, sorted items in each row, unique unless they repeat."""

    first_user: int
    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    times: NDArray[Any] | None = None
    testing: NDArray[np.bool_] | None = None
    weights: NDArray[np.float32] | None = None

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    def rows(self) -> NDArray[np.int64]:
        """Return the row of every pair."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.degrees)

    def subset(self, mask: NDArray[np.bool_]) -> "Block":
        """Return the marked pairs, over the same users."""
        passed = np.zeros(len(mask) + 1, dtype=np.int64)
        np.cumsum(mask, out=passed[1:])
        optional: tuple[NDArray[Any] | None, ...] = (self.times, self.testing, self.weights)
        columns = (None if column is None else column[mask] for column in optional)
        return Block(self.first_user, passed[self.indptr], self.items[mask], *columns)

    def among(self, users: NDArray[np.bool_], items: NDArray[np.bool_]) -> "Block":
        """Return the pairs of marked users and items, over the same users."""
        own = users[self.first_user : self.first_user + len(self.indptr) - 1]
        return self.subset(own[self.rows()] & items[self.items])


@dataclass
class Merged:
    """Count the repeated pairs that sorting merged, with examples as (user, item) positions."""

    merged: int = 0
    repeated: tuple[int, int] | None = None
    in_both: tuple[int, int] | None = None


@dataclass(frozen=True)
class SavedBlocks:
    """Iterate blocks in files, as often as need be."""

    paths: list[Path]

    def __iter__(self) -> Iterator[Block]:
        return map(load_block, self.paths)


def save_block(path: Path, block: Block) -> None:
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **{name: value for name, value in vars(block).items() if value is not None})


def load_block(path: Path) -> Block:
    with np.load(path, allow_pickle=False) as arrays:
        return Block(int(arrays["first_user"]), **{name: arrays[name] for name in arrays if name != "first_user"})


def sort_batches(
    batches: Iterable[Batch], num_users: int, num_items: int, scratch: Path | None, merges: bool = True
) -> tuple[Iterable[Block], Merged]:
    """Sort pairs, and merge them unless rows are split first; through files in `scratch`, or in memory without."""
    merged = Merged()
    if scratch is None:
        return [sorted_block(concatenated(list(batches)), 0, num_users, num_items, merged, merges)], merged
    saved = SavedBlocks([])
    width = max(-(-num_users // _BUCKETS), 1)
    buckets, layout = _spill(batches, width, scratch)
    for first_bucket, last_bucket in _grouped([path.stat().st_size // layout.itemsize for path in buckets]):
        parts = [_unspilled(path, layout) for path in buckets[first_bucket:last_bucket]]
        first, last = first_bucket * width, min(last_bucket * width, num_users)
        if first < last:
            block = sorted_block(concatenated(parts), first, last - first, num_items, merged, merges)
            saved.paths.append(scratch / f"block-{len(saved.paths)}.npz")
            save_block(saved.paths[-1], block)
    return saved, merged


def sorted_block(
    batch: Batch, first_user: int, num_rows: int, num_items: int, merged: Merged, merges: bool = True
) -> Block:
    rows = batch.users - np.int32(first_user) if first_user else batch.users
    # A stable sort by item, then one by user.
    by_item = kernels.counting_sort(batch.items, num_items)[0]
    by_user, starts = kernels.counting_sort(kernels.scatter(rows, by_item), num_rows)
    targets = by_user[by_item]
    columns: list[Any] = [None if one is None else kernels.scatter(one, targets) for one in batch[1:]]
    items, times, testing, weights = columns
    if weights is not None:
        _order_repeated(starts, items, times, weights)
    if not merges:
        return Block(first_user, starts, items, times, testing, weights)
    indptr, keep, count, repeated, in_both = kernels.merge_rows(
        starts,
        items,
        np.empty(0, dtype=np.int64) if times is None else times,
        np.empty(0, dtype=np.bool_) if testing is None else testing,
        np.empty(0) if weights is None else weights,
    )

    def pair(position: int) -> tuple[int, int] | None:
        if position < 0:
            return None
        return int(np.searchsorted(starts, position, side="right")) - 1 + first_user, int(items[position])

    merged.merged += count
    merged.repeated = merged.repeated or pair(repeated)
    merged.in_both = merged.in_both or pair(in_both)
    if count:
        items, times, testing, weights = (None if one is None else one[keep] for one in columns)
    return Block(first_user, indptr, items, times, testing, None if weights is None else weights.astype(np.float32))


def _order_repeated(
    starts: NDArray[np.int64], items: NDArray[np.int32], times: NDArray[Any] | None, weights: NDArray[np.floating]
) -> None:
    """Order the rows of each pair by time and weight: a sum and a split must not depend on the order they came in."""
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    follows = np.append(False, (rows[1:] == rows[:-1]) & (items[1:] == items[:-1]))
    repeated = np.flatnonzero(follows | np.append(follows[1:], False))
    columns = [weights] if times is None else [weights, times]
    order = repeated[np.lexsort((*(one[repeated] for one in columns), np.cumsum(~follows)[repeated]))]
    for column in columns:
        column[repeated] = column[order]


def concatenated(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    columns: list[Any] = [None if parts[0] is None else np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return Batch(*columns)


def _spill(batches: Iterable[Batch], width: int, scratch: Path) -> tuple[list[Path], np.dtype[np.void]]:
    """Append every pair to the file of its range of users; return the files and the layout of their records."""
    paths = [scratch / f"bucket-{number}" for number in range(_BUCKETS)]
    layout: np.dtype[np.void] = np.dtype([("users", np.int32), ("items", np.int32)])
    with ExitStack() as stack:
        handles = [stack.enter_context(open(path, "wb")) for path in paths]
        for batch in batches:
            columns = {name: column for name, column in batch._asdict().items() if column is not None}
            layout = np.dtype([(name, column.dtype) for name, column in columns.items()])
            bucket = batch.users // np.int32(width)
            targets, starts = kernels.counting_sort(bucket, _BUCKETS)
            records = np.empty(len(bucket), dtype=layout)
            for name, column in columns.items():
                records[name] = kernels.scatter(column, targets)
            for number in np.flatnonzero(np.diff(starts)):
                handles[number].write(records[starts[number] : starts[number + 1]].data)
    return paths, layout


def _unspilled(path: Path, layout: np.dtype[np.void]) -> Batch:
    records = np.fromfile(path, dtype=layout)
    path.unlink()
    return Batch(**{name: np.ascontiguousarray(records[name]) for name in layout.names or ()})


def _grouped(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of neighbouring buckets that together hold about as many pairs as a block should."""
    start, pairs = 0, 0
    for number, size in enumerate(sizes):
        if number > start and pairs + size > BLOCK_PAIRS:
            yield start, number
            start, pairs = number, 0
        pairs += size
    yield start, len(sizes)
