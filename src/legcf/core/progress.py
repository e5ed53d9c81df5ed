# SPDX-License-Identifier: Apache-2.0
"""Show progress: a live bar with rate and time left on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PLAIN_EVERY_SECONDS = 10.0


class Task:
    """Count work under way; call `advance` as it goes on. This one shows nothing."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Live(Task):
    def __init__(self, bar: "Progress", title: str, total: float | None, unit: str) -> None:
        self._bar, self._unit = bar, unit
        number = bar.add_task(title, total=total, rate="", note="")
        self._task = bar.tasks[number]

    def advance(self, amount: float = 1, note: str = "") -> None:
        rate = (self._task.completed + amount) / max(self._task.elapsed or 0, 1e-9)
        self._bar.update(self._task.id, advance=amount, rate=f"{rate:,.1f} {self._unit}/s", note=note)


class _Plain(Task):
    """Print a line every ten seconds, none for what ends sooner."""

    def __init__(self, title: str, total: float | None, unit: str) -> None:
        self._title, self._total, self._unit, self._done = title, total, unit, 0.0
        self._start = self._printed_at = time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._printed_at < _PLAIN_EVERY_SECONDS:
            return
        self._printed_at = now
        rate = max(self._done / max(now - self._start, 1e-9), 1e-9)
        of, left = "", ""
        if self._total is not None:
            of, left = f"/{self._total:,.0f}", f", {(self._total - self._done) / rate:,.0f} s left"
        line = f"{self._title}: {self._done:,.0f}{of} {self._unit}, {rate:,.1f}/s{left}"
        print(f"{line}, {note}" if note else line, file=sys.stderr)


_silent = False


def silence() -> None:
    """Show no progress in this process: of several that do the same, only one prints."""
    global _silent
    _silent = True


@contextmanager
def progress(title: str, total: float | None, unit: str = "steps", quiet: bool = False) -> Iterator[Task]:
    """Yield a task to advance: `with progress("Reading", size, "bytes") as task: task.advance(n)`."""
    if quiet or _silent:
        yield Task()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Live(bar, title, total, unit)
    else:
        yield _Plain(title, total, unit)
