# SPDX-License-Identifier: Apache-2.0
"""A model file in memory, under a name for its content."""

import hashlib
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from legcf.serving.memory import Memory
from legcf.serving.scorer import Scorer

_TAG_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Loaded:
    """A scorer with what only the page needs, computed when first asked for. `tag` names the file's content."""

    scorer: Scorer
    bytes: int
    tag: str
    given: Memory  # answers of this model
    at: float = field(default_factory=time.time)

    @classmethod
    def of(cls, path: Path, cache_bytes: int = 0) -> "Loaded":
        while True:
            tag, size = tag_of(path)
            scorer = Scorer.load(path).prepare()
            if tag_of(path)[0] == tag:  # else it was replaced meanwhile
                return cls(scorer, size, tag, Memory(cache_bytes))

    @cached_property
    def folded_names(self) -> list[str]:
        model = self.scorer.model
        names = model.titles if model.titles is not None else [str(value) for value in model.items.values.tolist()]
        return [name.casefold() for name in names]

    @cached_property
    def user_names(self) -> list[str]:
        users = self.scorer.model.users
        return [] if users is None else [str(value) for value in users.values.tolist()]

    @cached_property
    def by_popularity(self) -> list[int]:
        order: list[int] = np.argsort(-self.scorer.model.popularity.astype(np.int16), kind="stable").tolist()
        return order


def tag_of(path: Path) -> tuple[str, int]:
    """The beginning of the SHA-256 of a file, and its length."""
    try:
        content = path.read_bytes()
    except OSError:
        return "", 0  # whoever loads it says what is wrong
    return hashlib.sha256(content).hexdigest()[:_TAG_DIGITS], len(content)
