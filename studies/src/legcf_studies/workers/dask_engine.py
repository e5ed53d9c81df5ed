# SPDX-License-Identifier: Apache-2.0
"""Prepare data on Dask, for tables that one machine should not read alone. Needs the extra `dask`.

The same functions as on one machine, as tasks: every file is looked at, ids are united, pairs go to the block of their
user, blocks are sorted, filtered and split. Pairs stand in the same order however they are cut, and each block draws
the random numbers of its own position in that order, so the parts, and their hash, are those of the local engine. Dask
schedules, moves and repeats; what tasks leave are files, written whole, on a drive that client and workers share.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from legcf.core import threads
from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import written_whole
from legcf.core.progress import progress
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.data.preparing import kernels
from legcf.data.preparing.blocks import (
    BLOCK_PAIRS,
    Batch,
    Block,
    Merged,
    concatenated,
    load_block,
    save_block,
    sorted_block,
)
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import Built, KeptBlocks, PartWriter, refuse_repeated
from legcf.data.preparing.prepared import write_prepared
from legcf.data.preparing.splits import PARTS, find_protocol
from legcf.data.reading.item_table import read_titles
from legcf.data.reading.tables import NoInteractions, open_files

_Result = TypeVar("_Result")
_Ids = NDArray[Any]


def prepare_on_dask(
    paths: Sequence[Path], options: DataOptions, out: Path, scheduler: str | None = None, quiet: bool = False
) -> Dataset:
    """Prepare tables in files as `prepared.prepare` does, on the workers of a scheduler, or on some of this machine."""
    protocol = options.protocol or "ratio"
    if protocol not in ("ratio", "leave-last-out"):
        raise UserError(f"--engine dask splits by ratio or leave-last-out, not by {protocol}: leave --engine out.")
    with dask_client(scheduler, "--engine dask") as client:
        job = _Job(client, [path.absolute() for path in paths], options, find_protocol(protocol).name, quiet)
        return write_prepared(out, options, job.build)


@contextmanager
def dask_client(scheduler: str | None, asked_by: str) -> Iterator[Any]:
    """Open a client of the scheduler at this address, or of one with workers of this machine."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise MissingExtra(asked_by, "dask", "legcf-studies") from error

    if scheduler is None:
        with (
            LocalCluster(n_workers=threads.available(), threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout="20s")
    except (OSError, ValueError, TimeoutError) as error:
        raise UserError(f"No Dask scheduler answers at {scheduler} ({error}): start one, or leave it out.") from error
    with client:
        yield client


@dataclass(frozen=True)
class _Seen:
    """Hold the ids and counts of a file, or of several."""

    users: _Ids
    items: _Ids
    rows: int
    rated_too_low: int
    has_ratings: bool
    times: frozenset[str | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tables(PairSource):
    """Describe tables whose pairs only the workers read."""

    options: DataOptions

    def batches(self) -> Iterator[Batch]:
        return iter(())

    def titles(self, items: IdMap) -> list[str] | None:
        return read_titles(items, self.options)


@dataclass(frozen=True)
class _Job:
    client: Any
    paths: list[Path]
    options: DataOptions
    protocol: str
    quiet: bool

    def build(self, folder: Path, parts: Sequence[PartWriter]) -> tuple[PairSource, Built]:
        """Write the parts; `folder` is there for what tasks leave to each other."""
        seen = self._ask(
            "Finding users and items", [self._task(_look, path, self.options) for path in self.paths], _both
        )
        source = self._source(seen)
        sorting, bounds = self._sort(seen, folder)
        merged = self._ask("Sorting", sorting, _both_merged)
        refuse_repeated(source, self.options, merged)
        files = [_block_file(folder, number) for number in range(len(sorting))]
        kept_file, starts = self._k_core(seen, files, bounds, folder)
        split = [
            self._task(_split, file, kept_file, int(start), self.protocol, self.options)
            for file, start in zip(files, starts[:-1], strict=True)
        ]
        self._ask("Splitting", split, lambda first, second: None)
        for file in files:
            with np.load(file.with_suffix(".parts.npz"), allow_pickle=False) as arrays:
                for name, part in zip(PARTS, parts, strict=True):
                    part.append(Block(0, arrays[f"{name}.indptr"], arrays[f"{name}.items"]))
        users_kept, items_kept = _load(kept_file, "users", "items")
        users, items = IdMap(seen.users[users_kept], "user"), IdMap(seen.items[items_kept], "item")
        for left in folder.glob("dask-*"):
            left.unlink()
        return source, Built(self.protocol, users, items, source.titles(items), int(starts[-1]), merged.merged)

    def _task(self, function: Callable[..., Any], *arguments: Any) -> Any:
        from dask.delayed import delayed

        return delayed(function, pure=False)(*arguments)

    def _ask(self, title: str, tasks: Sequence[Any], unite: Callable[[_Result, _Result], _Result]) -> _Result:
        """Return the results of all tasks united, two by two, so that no machine holds all of them."""
        with progress(f"{title} on Dask", None, "steps", self.quiet):
            level = list(tasks)
            while len(level) > 1:
                pairs = [self._task(unite, *level[index : index + 2]) for index in range(0, len(level) - 1, 2)]
                level = pairs + level[2 * len(pairs) :]
            result: _Result = self.client.compute(level[0]).result()
        return result

    def _sort(self, seen: _Seen, folder: Path) -> tuple[list[Any], NDArray[np.int64]]:
        """Return a task for each block of users, and the first user of each block."""
        blocks = min(max(-(-seen.rows // BLOCK_PAIRS), len(self.paths)), len(seen.users))  # a share for everyone
        bounds = np.arange(blocks + 1, dtype=np.int64) * len(seen.users) // blocks
        ids = folder.absolute() / "dask-ids.npz"
        users, items = IdMap(seen.users).to_arrays(), IdMap(seen.items).to_arrays()
        _save(ids, **{f"users.{name}": array for name, array in users.items()},
              **{f"items.{name}": array for name, array in items.items()})  # fmt: skip
        dealt = [self._task(_deal, path, self.options, ids, bounds) for path in self.paths]
        sorting = [
            self._task(_sort, [pieces[number] for pieces in dealt], bounds[number : number + 2], len(seen.items),
                       _block_file(folder, number))
            for number in range(blocks)
        ]  # fmt: skip
        return sorting, bounds

    def _k_core(
        self, seen: _Seen, files: Sequence[Path], bounds: NDArray[np.int64], folder: Path
    ) -> tuple[Path, NDArray[np.int64]]:
        """Return the file that marks the users and items that stay, and how many of their pairs precede each block."""
        users, items = np.ones(len(seen.users), dtype=np.bool_), np.ones(len(seen.items), dtype=np.bool_)
        k = self.options.k_core
        for number in count():
            kept_file = folder.absolute() / f"dask-kept-{number}.npz"
            _save(kept_file, users=users, items=items)
            counting = [self._task(_degrees, file, kept_file) for file in files]
            user_degrees, item_degrees = self._ask("Counting", counting, _both_degrees)
            staying = users & (user_degrees >= k), items & (item_degrees >= k)
            if k <= 0 or (staying[0].sum() == users.sum() and staying[1].sum() == items.sum()):
                break
            users, items = staying
        if not (users.any() and items.any()):
            raise UserError(f"Nothing is left of {self._where} with k_core={k}: choose a smaller one.")
        before = np.concatenate([[0], np.cumsum(user_degrees)])[bounds]
        return kept_file, before

    @property
    def _where(self) -> str:
        more = len(self.paths) - 1
        return f"{self.paths[0]} and {more} more files" if more else str(self.paths[0])

    def _source(self, seen: _Seen) -> PairSource:
        if seen.rows == 0:
            raise UserError(f"{self._where} holds no interactions.")
        if len(seen.times) > 1:
            raise UserError(f"The files of {self._where} write times in different ways: write them in one.")
        times = next(iter(seen.times), None)
        find_protocol(self.protocol).check(has_test=False, has_time=times is not None, where=self._where)
        users, items = IdMap(seen.users, "user"), IdMap(seen.items, "item")
        return _Tables(
            name=self.paths[0].name.split(".")[0],
            where=self._where,
            users=users,
            items=items,
            num_rows=seen.rows,
            options=self.options,
            rated_too_low=seen.rated_too_low,
            has_ratings=seen.has_ratings,
            times=times,
        )


# Tasks ----------------------------------------------------------------------------------------------------------------


def _look(path: Path, options: DataOptions) -> _Seen:
    try:
        source = open_files([path], options)
    except NoInteractions as nothing:
        return _Seen(np.empty(0, np.int64), np.empty(0, np.int64), 0, nothing.rated_too_low, False, frozenset())
    counts = source.num_rows, source.rated_too_low, source.has_ratings
    return _Seen(source.users.values, source.items.values, *counts, frozenset([source.times]))


def _both(first: _Seen, second: _Seen) -> _Seen:
    return _Seen(
        _united(first.users, second.users),
        _united(first.items, second.items),
        first.rows + second.rows,
        first.rated_too_low + second.rated_too_low,
        first.has_ratings or second.has_ratings,
        first.times | second.times,
    )


def _united(first: _Ids, second: _Ids) -> _Ids:
    if not len(first) or not len(second):
        return first if len(first) else second
    if first.dtype != second.dtype:
        kind: Any = object if object in (first.dtype, second.dtype) else np.uint64
        first, second = _as(first, kind), _as(second, kind)
    return np.union1d(first, second)


def _as(ids: _Ids, kind: Any) -> _Ids:
    """Return ids in the type of all files together: where some are text all are, and integers keep their spelling."""
    if ids.dtype == kind:
        return ids
    if kind is object or kind == np.dtype(object):
        return np.array([str(value) for value in ids.tolist()], dtype=object)
    if len(ids) and ids.min() < 0:
        raise UserError("Ids below zero and ids above 2^63 do not go together: make them text.")
    return ids.astype(kind)


def _deal(path: Path, options: DataOptions, ids: Path, bounds: NDArray[np.int64]) -> list[Batch]:
    """Return the pairs of a file, a batch for each block of users."""
    try:
        source = open_files([path], options)
    except NoInteractions:
        return [Batch(np.empty(0, np.int32), np.empty(0, np.int32)) for _ in bounds[1:]]
    user_at, item_at = _positions(ids, "users", source.users), _positions(ids, "items", source.items)
    whole = concatenated([
        Batch(user_at[batch.users], item_at[batch.items], batch.times) for batch in source.batches()
    ])  # fmt: skip
    block = (np.searchsorted(bounds, whole.users, side="right") - 1).astype(np.int32)
    targets, starts = kernels.counting_sort(block, len(bounds) - 1)
    columns = [None if column is None else kernels.scatter(column, targets) for column in whole]
    return [
        Batch(*(None if column is None else column[first:last] for column in columns))  # type: ignore[arg-type]
        for first, last in pairwise(starts.tolist())
    ]


def _positions(file: Path, kind: str, ids: IdMap) -> NDArray[np.int32]:
    """Return the positions of these ids among those of all files."""
    with np.load(file, allow_pickle=False) as arrays:
        stored = {name.partition(".")[2]: arrays[name] for name in arrays if name.startswith(f"{kind}.")}
    all_ids = IdMap.from_arrays(stored).values
    return np.searchsorted(all_ids, _as(ids.values, all_ids.dtype)).astype(np.int32)


def _sort(pieces: list[Batch], users: NDArray[np.int64], num_items: int, file: Path) -> Merged:
    merged, first = Merged(), int(users[0])
    filled = [piece for piece in pieces if len(piece.users)] or pieces[:1]
    save_block(file, sorted_block(concatenated(filled), first, int(users[1]) - first, num_items, merged))
    return merged


def _both_merged(first: Merged, second: Merged) -> Merged:
    return Merged(first.merged + second.merged, first.repeated or second.repeated, first.in_both or second.in_both)


def _degrees(file: Path, kept_file: Path) -> tuple[Any, Any]:
    block = load_block(file)
    users_kept, items_kept = _load(kept_file, "users", "items")
    counted = block.among(users_kept, items_kept)
    return counted.degrees, np.bincount(counted.items, minlength=len(items_kept))


def _both_degrees(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Unite the degrees of neighbouring blocks: those of users follow each other, those of items add up."""
    return np.concatenate([first[0], second[0]]), first[1] + second[1]


def _split(file: Path, kept_file: Path, start: int, protocol: str, options: DataOptions) -> None:
    rng = np.random.default_rng(options.split_seed)
    rng.bit_generator.advance(start)  # type: ignore[attr-defined]  # one draw for each pair before this block
    blocks = KeptBlocks([load_block(file)], *_load(kept_file, "users", "items"))
    label = find_protocol(protocol).start(options, rng, blocks)
    (block,) = blocks
    labels = label(block)
    arrays: dict[str, NDArray[Any]] = {}
    for number, name in enumerate(PARTS):
        some = block.subset(labels == number)
        arrays |= {f"{name}.indptr": some.indptr, f"{name}.items": some.items}
    _save(file.with_suffix(".parts.npz"), **arrays)


def _save(path: Path, **arrays: NDArray[Any]) -> None:
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _load(path: Path, *names: str) -> list[NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return [arrays[name] for name in names]


def _block_file(folder: Path, number: int) -> Path:
    return folder.absolute() / f"dask-{number}.npz"
