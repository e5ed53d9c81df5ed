# SPDX-License-Identifier: Apache-2.0
"""Keep answers for whoever asks the same again: a model does not change, so neither do its answers."""

from collections import OrderedDict
from collections.abc import Hashable

_OVERHEAD = 200  # bytes that an entry takes beside its content, roughly; not measured


class LruCache:
    """Forget what was not asked for longest, once all entries together take more than `max_bytes`."""

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
