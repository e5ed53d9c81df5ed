# SPDX-License-Identifier: Apache-2.0
"""Load a model file, with items that were described to the server since, under a tag for its content."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from legcf.core.errors import UserError
from legcf.core.files import open_regular
from legcf.modelfile.container import check_header
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.scorer import Scorer
from legcf.server.logs import log
from legcf.server.state.event_log import EventLog

_TAG_DIGITS = 12
_OVERHEAD = 200  # bytes that an entry takes beside its content, roughly; not measured


class LruCache:
    """Keep answers for whoever asks the same again: a model does not change, so neither do its answers.

    What was not asked for longest is forgotten once all entries together take more than `max_bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self._bytes = max_bytes, 0
        self._entries: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        content = self._entries.get(key)
        if content is not None:
            self._entries.move_to_end(key)
        return content

    def keep(self, key: Hashable, content: bytes) -> None:
        size = len(content) + _OVERHEAD
        if size > self.max_bytes or key in self._entries:
            return
        self._entries[key] = content
        self._bytes += size
        while self._bytes > self.max_bytes:
            _, forgotten = self._entries.popitem(last=False)
            self._bytes -= len(forgotten) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Hold a scorer, the cache of its answers, and what only the page needs, computed when first asked for.

    `tag` names the file's content, and behind a plus how many descriptions of items there were, where they brought new
    ones.
    """

    scorer: Scorer
    file_bytes: int
    tag: str
    response_cache: LruCache
    loaded_at: float = field(default_factory=time.time)

    @classmethod
    def of(cls, path: Path, cache_bytes: int = 0) -> "LoadedModel":
        check_header(path)  # before all of it is read
        while True:
            tag, size = tag_of(path)
            scorer = Scorer.load(path).prepare()
            if tag_of(path)[0] == tag:  # else it was replaced meanwhile
                return cls(scorer, size, tag, LruCache(cache_bytes))

    def with_described_items(self, event_log: EventLog | None) -> "LoadedModel":
        """Return the model with every item that the log describes and the file does not have.

        A description that this file can make no vector of is left out, with a line in the server's log.
        """
        if event_log is None:
            return self
        model, new = self.scorer.model, []
        position = event_log.last_description
        for entry in event_log.descriptions():
            if model.items.find(entry.item) is not None:
                continue
            try:
                new.append(NewItem.of(model, entry.item, entry.features, entry.title))
            except UserError as error:  # said to another file, which had learnt from other features
                log("item_not_placed", "warning", item=entry.item, reason=str(error))
        if not new:
            return self
        scorer = Scorer(with_new_items(model, new), self.scorer.path).prepare()
        return LoadedModel(scorer, self.file_bytes, f"{self.tag}+{position}", LruCache(self.response_cache.max_bytes))

    @property
    def num_items(self) -> int:
        return len(self.scorer.model.items)

    @cached_property
    def folded_names(self) -> list[str]:
        """Return what the page searches items by: titles, or ids where there are none."""
        model = self.scorer.model
        names = model.titles if model.titles is not None else [str(value) for value in model.items.values.tolist()]
        return [name.casefold() for name in names]

    @cached_property
    def user_names(self) -> list[str]:
        users = self.scorer.model.users
        return [] if users is None else [str(value) for value in users.values.tolist()]

    @cached_property
    def by_popularity(self) -> list[int]:
        """Return positions of all items, the best known first."""
        order: list[int] = np.argsort(-self.scorer.model.popularity.astype(np.int64), kind="stable").tolist()
        return order


def tag_of(path: Path) -> tuple[str, int]:
    """Return the beginning of the SHA-256 of a file, and its length."""
    try:
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256")
            return digest.hexdigest()[:_TAG_DIGITS], file.tell()
    except OSError:
        return "", 0  # whoever loads it says what is wrong
