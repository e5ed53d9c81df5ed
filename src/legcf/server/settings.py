# SPDX-License-Identifier: Apache-2.0
"""Hold how a server runs, and hand it to worker processes."""

import ipaddress
import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

SETTINGS_VARIABLE = "LEGCF_SERVE_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """Hold the options of `legcf serve`, which its help explains.

    `hosts` are names, beside those of this machine for itself, that requests may be sent to and whose pages may send
    some; None takes any name. `counts` is the folder where workers share their counters; None counts in memory, for one
    process alone. `events` is the folder of the event log; None takes no events. `max_body` and `cache_bytes` are in
    bytes.
    """

    model: str
    api_key: str | None = None
    max_body: int = 2**20
    reload_seconds: float = 1.0
    access_log: bool = True
    log_ids: bool = False
    cors_origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    popular_for_unknown: bool = False
    cache_bytes: int = 32 * 2**20
    counts: str | None = None
    events: str | None = None

    def to_environment(self) -> None:
        os.environ[SETTINGS_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> "Settings":
        values: dict[str, Any] = json.loads(os.environ[SETTINGS_VARIABLE])
        for name, value in values.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


@lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """Return whether a name or an address is this machine's for itself."""
    try:
        return name == "localhost" or ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
