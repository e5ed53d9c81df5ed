# SPDX-License-Identifier: Apache-2.0
"""Read the text format of LightGCN: a line is `user item item …`, all of them whole numbers; train.txt and test.txt."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions
from legcf.data.preparing import kernels
from legcf.data.preparing.blocks import Batch
from legcf.data.preparing.pair_source import PairSource
from legcf.data.reading.compressed import COMPRESSIONS, line_chunks
from legcf.data.reading.encode import IntegerIds
from legcf.data.reading.item_table import read_titles

# Text up to this size is parsed once and kept; larger text is parsed twice, for the ids and for the pairs.
_KEEP_BYTES = 256 << 20
_PROBLEMS = {
    kernels.NOT_A_NUMBER: "holds something that is not a number; a line is `user item item …`, whole numbers only",
    kernels.NEGATIVE: "holds a negative number; ids in this format are whole numbers from 0 up",
    kernels.TOO_LARGE: "holds a number that does not fit into 64 bits",
    kernels.NUL_BYTE: "holds a NUL byte; the file is damaged",
    kernels.NOT_TEXT: "holds a byte that is not plain ASCII text",
}


@dataclass(frozen=True)
class Lines:
    """Hold parsed lines: `users[line]` has the items `items[bounds[line]:bounds[line + 1]]`."""

    path: Path
    users: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    """Line numbers in the file, from 1; blank lines have no entry."""
    bounds: NDArray[np.int64]
    items: NDArray[np.uint64]

    def pair_users(self, line_users: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.repeat(line_users, np.diff(self.bounds))

    def line_of(self, pair: int) -> int:
        return int(np.searchsorted(self.bounds, pair, side="right")) - 1


def text_file(folder: Path, part: str) -> Path | None:
    """Return the train.txt or test.txt of a folder, plain or compressed."""
    names = [f"{part}.txt", *(f"{part}.txt{suffix}" for suffix in COMPRESSIONS)]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def parsed(path: Path) -> Iterator[Lines]:
    before = 0
    for chunk in line_chunks(path):
        users, numbers, bounds, items, problem, line = kernels.parse_lines(np.frombuffer(chunk, dtype=np.uint8))
        if problem != kernels.FINE:
            raise UserError(f"{path}, line {before + line} {_PROBLEMS[problem]}.")
        yield Lines(path, users, numbers + before, bounds, items)
        before += line


@dataclass(frozen=True, kw_only=True, eq=False)
class _Folder(PairSource):
    """Read the text files of a folder, whose ids have been gathered."""

    train: Path
    test: Path | None
    kept_lines: tuple[Lines, ...] | None
    """The parsed files, where they are small enough to be kept."""
    user_ids: IntegerIds
    item_ids: IntegerIds
    options: DataOptions

    def lines(self) -> Iterator[Lines]:
        if self.kept_lines is not None:
            yield from self.kept_lines
            return
        for path in (self.train, self.test):
            if path is not None:
                yield from parsed(path)

    def batches(self) -> Iterator[Batch]:
        for lines in self.lines():
            items = self.item_ids.encode(lines.items)
            testing = None if self.test is None else np.full(len(items), lines.path == self.test)
            yield Batch(lines.pair_users(self.user_ids.encode(lines.users)), items, None, testing)

    def titles(self, items: IdMap) -> list[str] | None:
        return read_titles(items, self.options)

    def where_pair(self, user: int, item: int) -> str:
        """Return file and line of the last occurrence of a pair."""
        where = str(self.train)
        for lines in self.lines():
            of_user = lines.pair_users(self.user_ids.encode(lines.users)) == user
            pairs = np.flatnonzero(of_user & (self.item_ids.encode(lines.items) == item))
            if len(pairs):
                where = f"{lines.path}, line {lines.numbers[lines.line_of(int(pairs[-1]))]}"
        return f"{where}: item {self.items.values[item]} of user {self.users.values[user]}"

    def where_cold(self, cold_users: NDArray[np.bool_], cold_items: NDArray[np.bool_]) -> str:
        """Return the first line with a user or an item that has no train pairs."""
        for lines in self.lines():
            bad_lines = np.flatnonzero(cold_users[self.user_ids.encode(lines.users)])
            bad_pairs = np.flatnonzero(cold_items[self.item_ids.encode(lines.items)])
            line = int(bad_lines[0]) if len(bad_lines) else len(lines.users)
            if len(bad_pairs) and lines.line_of(int(bad_pairs[0])) < line:
                number = lines.numbers[lines.line_of(int(bad_pairs[0]))]
                return f"{lines.path}, line {number}: item {lines.items[bad_pairs[0]]} is not in {self.train.name}"
            if len(bad_lines):
                return f"{lines.path}, line {lines.numbers[line]}: user {lines.users[line]} has no train items"
        raise AssertionError("cold users and items come from the files")


def open_folder(folder: Path, options: DataOptions, name: str | None = None) -> PairSource:
    train, test = text_file(folder, "train"), text_file(folder, "test")
    if train is None:
        raise UserError(
            f"{folder} is a folder without train.txt: a LightGCN folder holds train.txt and test.txt, "
            "a prepared one holds manifest.json."
        )
    paths = [path for path in (train, test) if path is not None]
    keep = sum(path.stat().st_size for path in paths) <= _KEEP_BYTES
    kept_lines: list[Lines] = []
    users, items = IntegerIds("user"), IntegerIds("item")
    rows = {path: 0 for path in paths}
    for path in paths:
        for lines in parsed(path):
            users.add(lines.users)
            items.add(lines.items)
            rows[path] += len(lines.items)
            if keep:
                kept_lines.append(lines)
    if rows[train] == 0:
        raise UserError(f"{train} holds no interactions.")
    return _Folder(
        name=name or folder.resolve().name,
        where=str(folder),
        users=users.ids,
        items=items.ids,
        num_rows=sum(rows.values()),
        has_test=test is not None,
        merge_duplicates=False,
        train=train,
        test=test,
        kept_lines=tuple(kept_lines) if keep else None,
        user_ids=users,
        item_ids=items,
        options=options,
    )
