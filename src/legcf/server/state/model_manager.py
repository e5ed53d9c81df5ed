# SPDX-License-Identifier: Apache-2.0
"""Keep the model in use: replaced as a whole with its file, and when new items are described, while requests under way
keep the one they began with."""

import asyncio
import stat
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from legcf.modelfile.container import check_header
from legcf.server.logs import log
from legcf.server.state.event_log import EventLog
from legcf.server.state.loaded_model import LoadedModel, tag_of
from legcf.server.telemetry import Telemetry

_RECENT = 3  # models that lists which they began can be read on from; each takes the memory of its file
REFUSED = "The file on disk was refused, and the model from before answers: the log says why."
GONE = "The file on disk is gone, and the model from before answers: put a file back."

FileState = tuple[int, int, int]
"""Time of the last change in ns, size, inode: another one says that the file was replaced."""
_Result = TypeVar("_Result")


class ModelManager(Collector):
    """Hold the model in use (`current`) and watch its file.

    `warning` is what is wrong with the file on disk, None if it is the one in use. Items are described in `event_log`.
    """

    def __init__(
        self, path: Path, telemetry: Telemetry, cache_bytes: int = 0, event_log: EventLog | None = None
    ) -> None:
        self.path, self._telemetry, self._cache_bytes, self._event_log = path, telemetry, cache_bytes, event_log
        self._reloading = asyncio.Lock()
        self._last_described = self._last_description()
        self._file, self._file_state = self._load(None)
        self._recent: dict[str, LoadedModel] = {}
        self.current = self._file.with_described_items(event_log)
        self.warning: str | None = None
        self._refused: FileState | None = None
        telemetry.registry.register(self)

    @property
    def current(self) -> LoadedModel:
        return self._current

    @current.setter
    def current(self, loaded: LoadedModel) -> None:
        self._current = loaded
        self._recent = dict([*self._recent.items(), (loaded.tag, loaded)][-_RECENT:])

    def recent(self, tag: str | None) -> LoadedModel:
        """Return the model of this tag if it was in use lately, else the one in use."""
        return self._recent.get(tag or "", self._current)

    async def watch(self, every_seconds: float) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Load a replaced file beside the running model, then switch. A bad file changes nothing and is logged once.

        When this returns, the model in use also has what was described before.
        """
        async with self._reloading:
            await self._reload_file()
            try:
                described = self._last_description()
                if described != self._last_described:
                    self.current = await _in_thread(lambda: self._file.with_described_items(self._event_log))
                    self._last_described = described
            except Exception as error:  # such as a disk that cannot be read now: it is looked at again
                log("items_not_read", "error", reason=str(error) or repr(error))

    async def _reload_file(self) -> None:
        state = _file_state(self.path)
        if state is None:
            self._warn(GONE)
        elif state == self._file_state:
            self.warning = None
        elif state != self._refused:
            try:
                described = self._last_description()
                file, loaded = await _in_thread(lambda: self._load(self._file))
                self.current = await _in_thread(lambda: file.with_described_items(self._event_log))
                self._file, self._file_state, self._last_described = file, loaded, described
            except Exception as error:  # whatever is wrong with a file, the next one is looked at
                self._refused = state
                self._telemetry.refusals.inc()
                self._warn(REFUSED, reason=str(error) or repr(error))
            else:
                self.warning, self._refused = None, None
                self._telemetry.reloads.inc()
                log("model_reloaded", path=str(self.path), bytes=self.current.file_bytes, model=self.current.tag)
        else:
            self.warning = REFUSED

    def _warn(self, warning: str, **facts: str) -> None:
        if self.warning != warning or facts:
            log("model_refused" if facts else "model_gone", "error", path=str(self.path), **facts)
        self.warning = warning

    def _last_description(self) -> int:
        return 0 if self._event_log is None else self._event_log.last_description

    def _load(self, before: LoadedModel | None) -> tuple[LoadedModel, FileState | None]:
        """Load what the file holds now: the model from before, with its cache, if the content is the same."""
        state = _file_state(self.path)  # before the content: if it is replaced meanwhile, it is looked at again
        check_header(self.path)
        same = before is not None and before.tag == tag_of(self.path)[0]
        return before if before is not None and same else LoadedModel.of(self.path, self._cache_bytes), state

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield what /metrics says of the model."""
        current = self.current
        yield GaugeMetricFamily("legcf_model_bytes", "Size of the model's file.", current.file_bytes)
        yield GaugeMetricFamily("legcf_model_loaded_timestamp_seconds", "When the model was loaded.", current.loaded_at)
        stale = float(self.warning is not None)
        yield GaugeMetricFamily("legcf_model_warning", "1 while the file on disk is not the model in use.", stale)
        info = GaugeMetricFamily("legcf_model_info", "The model in use.", labels=["model"])
        info.add_metric([current.tag], 1.0)
        yield info


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Do as `asyncio.to_thread`, but in a thread that nobody waits for when the server stops: a disk may hang."""
    done: Future[_Result] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


def _file_state(path: Path) -> FileState | None:
    """Return the state of a file, None if there is none: a pipe, which would be waited for without end, is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_size, state.st_ino) if stat.S_ISREG(state.st_mode) else None
