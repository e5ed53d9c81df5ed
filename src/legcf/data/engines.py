# SPDX-License-Identifier: Apache-2.0
"""Name what does work on several machines: other packages bring it as entry points `legcf.engines`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legcf.core.plugins import Registry

if TYPE_CHECKING:
    from legcf.core.config import RunConfig

Trained = tuple[dict[str, Any], list[dict[str, Any]]]
"""Metrics and curve."""


@dataclass(frozen=True)
class Engine:
    """Read data and train on several machines, which see the same files and have the same legcf."""

    prepare: Callable[..., Any]
    """Paths, options, folder to write, address of a scheduler, quiet → the dataset, as the local engine makes it."""
    training: Callable[..., AbstractContextManager[tuple["Callable[[RunConfig], Trained]", int]]]
    """Reference and hash of the data, address of a scheduler → what trains, and how many trainings at a time."""


ENGINES: Registry[Engine] = Registry(
    "engine", "legcf.engines", lambda part: isinstance(part, Engine), {}, of_studies=("dask",)
)
