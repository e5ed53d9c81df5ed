# SPDX-License-Identifier: Apache-2.0
"""Show progress: a live bar with rate and time left on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

_PLAIN_EVERY_SECONDS = 10.0


class Task(Protocol):
    """Count work under way; call `advance` as it goes on."""

    def advance(self, amount: float = 1, note: str = "") -> None: ...


class _Silent:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Measured:
    """Measure how much is done and how fast."""

    def __init__(self, title: str, total: float | None, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._done = 0.0
        self._start = time.monotonic()

    def _count(self, amount: float) -> float:
        self._done += amount
        return self._done / max(time.monotonic() - self._start, 1e-9)


class _Live(_Measured):
    def __init__(self, bar: "Progress", title: str, total: float | None, unit: str) -> None:
        super().__init__(title, total, unit)
        self._bar = bar
        self._id = bar.add_task(title, total=total, rate="", note="")

    def advance(self, amount: float = 1, note: str = "") -> None:
        rate = self._count(amount)
        self._bar.update(self._id, advance=amount, rate=f"{rate:,.1f} {self._unit}/s", note=note)


class _Plain(_Measured):
    """Print a line every ten seconds, none for what ends sooner."""

    def __init__(self, title: str, total: float | None, unit: str) -> None:
        super().__init__(title, total, unit)
        self._printed_at = self._start

    def advance(self, amount: float = 1, note: str = "") -> None:
        rate = self._count(amount)
        now = time.monotonic()
        if now - self._printed_at < _PLAIN_EVERY_SECONDS:
            return
        self._printed_at = now
        has_total = self._total is not None
        of = f"/{self._total:,.0f}" if has_total else ""
        left = f", {((self._total or 0) - self._done) / max(rate, 1e-9):,.0f} s left" if has_total else ""
        print(
            f"{self._title}: {self._done:,.0f}{of} {self._unit}, {rate:,.1f}/s{left}{', ' if note else ''}{note}",
            file=sys.stderr,
        )


_silent = False


def silence() -> None:
    """Show no progress in this process: of several that do the same, only one prints."""
    global _silent
    _silent = True


@contextmanager
def progress(title: str, total: float | None, unit: str = "steps", quiet: bool = False) -> Iterator[Task]:
    """Yield a task to advance: `with progress("Reading", size, "bytes") as task: task.advance(n)`."""
    if quiet or _silent:
        yield _Silent()
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
