"""The model in use: replaced as a whole with its file, while requests under way keep the one they began with."""

import asyncio
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from legcf.serving.logs import log
from legcf.serving.memory import Memory
from legcf.serving.pictures import hues, item_map
from legcf.serving.scorer import Scorer
from legcf.serving.telemetry import Telemetry

_TAG_DIGITS = 12
REFUSED = "The file on disk was refused, and the model from before answers: the log says why."
GONE = "The file on disk is gone, and the model from before answers: put a file back."

Mark = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A scorer with what only the page needs, computed when first asked for. `tag` names the file's content."""

    scorer: Scorer
    bytes: int
    tag: str
    given: Memory  # answers of this model
    at: float = field(default_factory=time.time)

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

    @cached_property
    def hues(self) -> list[int]:
        return hues(self.scorer.model)

    @cached_property
    def map(self) -> dict[str, Any]:
        return item_map(self.scorer, self.by_popularity)


class Holder:
    """`warning` is what is wrong with the file on disk, None if it is the one in use."""

    def __init__(self, path: Path, telemetry: Telemetry, cache_bytes: int = 0) -> None:
        self.path, self._telemetry, self._cache_bytes = path, telemetry, cache_bytes
        self.current, self._mark = self._load(None)
        self.warning: str | None = None
        self._refused: Mark | None = None
        telemetry.gauges(self._gauges)

    async def watch(self, every_seconds: float) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            await self.look()

    async def look(self) -> None:
        """Load a replaced file beside the running model, then switch. A bad file changes nothing and is told once."""
        mark = _mark(self.path)
        if mark is None:
            self._warn(GONE)
        elif mark == self._mark:
            self.warning = None
        elif mark != self._refused:
            try:
                self.current, self._mark = await asyncio.to_thread(self._load, self.current)
            except Exception as error:  # whatever is wrong with a file, the next one is looked at
                self._refused = mark
                self._telemetry.refusals.inc()
                self._warn(REFUSED, reason=str(error) or repr(error))
            else:
                self.warning, self._refused = None, None
                self._telemetry.reloads.inc()
                log("model_reloaded", path=str(self.path), bytes=self.current.bytes, model=self.current.tag)
        else:
            self.warning = REFUSED

    def _warn(self, warning: str, **facts: str) -> None:
        if self.warning != warning or facts:
            log("model_refused" if facts else "model_gone", "error", path=str(self.path), **facts)
        self.warning = warning

    def _load(self, before: Loaded | None) -> tuple[Loaded, Mark]:
        """What the file holds now: the model from before, with all it remembers, if its content is the same."""
        while True:
            mark = _mark(self.path)
            tag, size = _tag(self.path)
            same = before is not None and before.tag == tag
            loaded = before if same else Loaded(Scorer.load(self.path).prepare(), size, tag, Memory(self._cache_bytes))
            if loaded is not None and mark is not None and mark == _mark(self.path):  # else it was replaced meanwhile
                return loaded, mark

    def _gauges(self) -> Iterable[GaugeMetricFamily]:
        current = self.current
        yield GaugeMetricFamily("legcf_model_bytes", "Size of the model's file.", current.bytes)
        yield GaugeMetricFamily("legcf_model_loaded_timestamp_seconds", "When the model was loaded.", current.at)
        stale = GaugeMetricFamily("legcf_model_warning", "1 while the file on disk is not the model in use.")
        stale.add_metric([], float(self.warning is not None))
        yield stale
        info = GaugeMetricFamily("legcf_model_info", "The model in use.", labels=["model"])
        info.add_metric([current.tag], 1.0)
        yield info


def _mark(path: Path) -> Mark | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def _tag(path: Path) -> tuple[str, int]:
    """The beginning of the content's SHA-256, and its length."""
    try:
        content = path.read_bytes()
    except OSError:
        return "", 0  # whoever loads it says what is wrong
    return hashlib.sha256(content).hexdigest()[:_TAG_DIGITS], len(content)
