"""The one door to numba: whoever has to wait for its compiler is told so, once."""

import sys
from typing import Any

from numba import get_num_threads, njit, prange
from numba.core import event

__all__ = ["get_num_threads", "njit", "prange", "silence"]


class _Teller(event.Listener):
    """Compiled code is kept on disk, so that most processes have nothing to tell."""

    has_told = False

    def on_start(self, event: Any) -> None:
        if not self.has_told:
            self.has_told = True
            print("Compiling for this machine: the first time takes up to a minute.", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nobody asks when it is over."""


_teller = _Teller()
event.register("numba:compile", _teller)  # type: ignore[no-untyped-call]


def silence() -> None:
    """For commands that are to be quiet."""
    _teller.has_told = True
