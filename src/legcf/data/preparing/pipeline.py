# SPDX-License-Identifier: Apache-2.0
"""Turn the pairs of a source into the parts of a dataset: sort, filter, split. One path for small and large data."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.progress import progress
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import DataOptions
from legcf.data.preparing.blocks import Batch, Block, Merged, sort_batches
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.splits import PARTS, find_protocol

# Sources with more pairs than this are sorted through files, so that memory stays bounded.
SPILL_PAIRS = 16_000_000


class PartWriter(Interface):
    """Take the pairs of one part, block after block."""

    def append(self, pairs: Block, /) -> None: ...


@dataclass(frozen=True)
class Built:
    """Describe the parts once they are written."""

    protocol: str
    users: IdMap
    items: IdMap
    titles: list[str] | None
    pairs: int
    merged: int
    dislikes: Interactions | None = None
    order: Interactions | None = None
    """As in `Dataset`."""


def build_in_memory(source: PairSource, options: DataOptions) -> Dataset:
    parts: list[list[Block]] = [[] for _ in PARTS]
    built = build(source, options, parts, keeps_order=True)
    train, validation, test = (_gathered(part, len(built.items)) for part in parts)
    facts, repeats, at = provenance(source, options, built), options.repeat == "allow", source.weighed_at()
    ids = built.users, built.items
    known = ids[0], ids[1], train, validation, test, built.titles, facts, at, built.dislikes, repeats, built.order
    return Dataset(source.name, built.protocol, *known)


def _gathered(blocks: list[Block], num_items: int) -> Interactions:
    """Return the pairs of a part that stands in memory."""
    indptr = np.cumsum(np.concatenate([[0], *(block.degrees for block in blocks)]))
    items = np.concatenate([block.items for block in blocks])
    weights = [block.weights for block in blocks if block.weights is not None]
    if not weights:
        return Interactions(indptr, items, num_items)
    users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return Interactions.from_pairs(users, items, len(indptr) - 1, num_items, np.concatenate(weights))


def provenance(source: PairSource, options: DataOptions, built: Built) -> dict[str, object]:
    """Return how the parts were made, enough to make them again, and what of the source is in them."""
    return {
        "source": source.where,
        "options": {**options.model_dump(), "protocol": built.protocol},
        "kept": {
            "rows": source.num_rows + source.rated_too_low + source.num_dislikes + source.num_missing,
            "users": len(built.users),
            "items": len(built.items),
            "pairs": built.pairs,
            "rated_too_low": source.rated_too_low,
            **({"dislikes": source.num_dislikes} if source.num_dislikes else {}),
            **({"missing": source.num_missing} if source.num_missing else {}),
            "duplicates_merged": built.merged,
            "users_dropped": len(source.users) - len(built.users),
            "items_dropped": len(source.items) - len(built.items),
            "ratings_ignored": source.has_ratings and not options.uses_ratings,
            "times": source.times,
        },
    }


def build(
    source: PairSource,
    options: DataOptions,
    parts: Sequence[PartWriter],
    scratch: Path | None = None,
    quiet: bool = True,
    keeps_order: bool = False,
) -> Built:
    """Sort, filter and split the pairs of a source into `parts`. Large sources spill into (or beside) `scratch`."""
    protocol = find_protocol(options.protocol or ("legcf" if source.has_test else "ratio"))
    protocol.check(source.has_test, source.times is not None, source.where)
    if source.num_rows == 0:
        raise UserError(f"{source.where} holds no interactions.")
    repeats = options.repeat == "allow"
    if (options.weighs or repeats or options.has_dislikes) and not source.has_weights:
        raise UserError(
            f"{source.where} has no column of weights or times, no ratings and no repeated rows: leave `--weight-col`,"
            " `--half-life`, `--dislike-below` and `--repeat` out, or give a table."
        )
    with _spill_folder(source.num_rows > SPILL_PAIRS, scratch) as folder:
        with progress(f"Reading {source.name}", source.num_rows, "pairs", quiet) as task:

            def counted() -> Iterator[Batch]:
                for batch in source.batches():
                    yield batch
                    task.advance(len(batch.users))

            store, merged = sort_batches(counted(), len(source.users), len(source.items), folder, not repeats)
        refuse_repeated(source, options, merged)
        kept = _kept(source, options, store, protocol.needs_test)
        if not (kept.users.any() and kept.items.any()):
            raise UserError(f"Nothing is left of {source.where} with k_core={options.k_core}: choose a smaller one.")
        rng = np.random.default_rng(options.split_seed)
        label = protocol.start(options, rng, kept)
        pairs, ordered = 0, list[Block]()
        with progress(f"Splitting {source.name}", int(kept.users.sum()), "users", quiet) as task:
            for block in kept:
                labels = label(block)
                pairs += len(block.items)
                plain = replace(block, times=None, testing=None)
                for number, part in enumerate(parts):
                    part.append(plain.subset(labels == number))
                if keeps_order and not repeats and block.times is not None:
                    ordered.append(replace(plain, weights=_positions_in_time(block, block.times)))
                task.advance(len(block.indptr) - 1)
    users = IdMap(source.users.values[kept.users], "user")
    items = IdMap(source.items.values[kept.items], "item")
    titles, dislikes = source.titles(items), _dislikes(source, kept)
    order = _gathered(ordered, len(items)) if ordered else None
    return Built(protocol.name, users, items, titles, pairs, merged.merged, dislikes, order)


def _positions_in_time(block: Block, times: NDArray[Any]) -> NDArray[np.float32]:
    """Return the position of every pair in its user's history, oldest first; pairs of one moment by their items."""
    rows = block.rows()
    positions = np.empty(len(rows), dtype=np.float32)
    positions[np.lexsort((times, rows))] = np.arange(len(rows)) - block.indptr[rows]
    return positions


def _dislikes(source: PairSource, kept: "KeptBlocks") -> Interactions | None:
    """Return the dislikes among the users and items that are kept."""
    pairs = source.dislikes()
    if pairs is None:
        return None
    users, items = (np.where(mask, np.cumsum(mask) - 1, -1) for mask in (kept.users, kept.items))
    dislikes = Interactions.from_pairs(*pairs, len(source.users), len(source.items))
    return dislikes.renumbered(users, items, int(kept.users.sum()), int(kept.items.sum()))


@contextmanager
def _spill_folder(needed: bool, scratch: Path | None) -> Iterator[Path | None]:
    if not needed:
        yield None
        return
    try:
        with tempfile.TemporaryDirectory(dir=scratch, prefix="legcf-spill-") as folder:
            yield Path(folder)
    except OSError as error:
        where = scratch or tempfile.gettempdir()
        raise UserError(
            f"Cannot write into {where}: {error.strerror or error}; TMPDIR may name another place."
        ) from error


def refuse_repeated(source: PairSource, options: DataOptions, merged: Merged) -> None:
    if merged.in_both is not None:
        raise UserError(
            f"{source.where_pair(*merged.in_both)} is both in train.txt and in test.txt: a pair to test on must not be "
            "trained on, so take it out of one of them."
        )
    merge = source.merge_duplicates if options.duplicates is None else options.duplicates == "merge"
    if merged.repeated is not None and not merge:
        raise UserError(
            f"{source.where_pair(*merged.repeated)} is there more than once ({merged.merged:,} repeated pairs in all): "
            "use `--duplicates merge` to keep one of each."
        )


@dataclass(frozen=True)
class KeptBlocks:
    """Iterate the blocks of a store with only some users and items, renumbered."""

    store: Iterable[Block]
    users: NDArray[np.bool_]
    items: NDArray[np.bool_]

    def __iter__(self) -> Iterator[Block]:
        if self.users.all() and self.items.all():
            yield from self.store
            return
        new_user = np.cumsum(self.users) - 1
        new_item = np.cumsum(self.items, dtype=np.int32) - np.int32(1)
        for block in self.store:
            rows = self.users[block.first_user : block.first_user + len(block.indptr) - 1]
            subset = block.among(self.users, self.items)
            indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(subset.degrees[rows])])
            first = int(new_user[block.first_user - 1]) + 1 if block.first_user else 0
            yield Block(first, indptr, new_item[subset.items], subset.times, subset.testing, subset.weights)


def _kept(source: PairSource, options: DataOptions, store: Iterable[Block], needs_test: bool) -> KeptBlocks:
    kept = _k_core(source, options.k_core, store)
    if not needs_test:
        return kept
    user_degrees, item_degrees = _degrees(source, kept, train_only=True)
    cold_users, cold_items = kept.users & (user_degrees == 0), kept.items & (item_degrees == 0)
    if not (cold_users.any() or cold_items.any()) or options.cold == "keep":
        return kept
    if options.cold == "error":
        raise UserError(
            f"{source.where_cold(cold_users, cold_items)} "
            f"({int(cold_users.sum()):,} such users and {int(cold_items.sum()):,} such items in all): "
            "use `--cold keep` to keep them without train pairs, or `--cold drop` to leave them out."
        )
    return KeptBlocks(store, kept.users & ~cold_users, kept.items & ~cold_items)


def _k_core(source: PairSource, k: int, store: Iterable[Block]) -> KeptBlocks:
    kept = KeptBlocks(store, np.ones(len(source.users), dtype=np.bool_), np.ones(len(source.items), dtype=np.bool_))
    while k > 0:
        user_degrees, item_degrees = _degrees(source, kept)
        users, items = kept.users & (user_degrees >= k), kept.items & (item_degrees >= k)
        if users.sum() == kept.users.sum() and items.sum() == kept.items.sum():
            break
        kept = KeptBlocks(store, users, items)
    return kept


def _degrees(
    source: PairSource, kept: KeptBlocks, train_only: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the pairs of every user and item (by their old numbers) among what is kept; `train_only`: of train.txt."""
    users = np.zeros(len(source.users), dtype=np.int64)
    items = np.zeros(len(source.items), dtype=np.int64)
    for block in kept.store:
        counted = block.among(kept.users, kept.items)
        if train_only and counted.testing is not None:
            counted = counted.subset(~counted.testing)
        users[block.first_user : block.first_user + len(counted.degrees)] = counted.degrees
        items += np.bincount(counted.items, minlength=len(items))
    return users, items
