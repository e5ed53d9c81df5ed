# SPDX-License-Identifier: Apache-2.0
"""A log of events that an update cannot read is refused in a sentence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.server.state.event_log import FILE_NAME, EventLog
from legcf.server.state.log_entries import new_event
from legcf.updating.events import new_events


def test_a_damaged_log_is_a_sentence(tmp_path: Path) -> None:
    log = EventLog(tmp_path, create=True)
    log.write([[new_event(f"u{number}", "i" * 50) for number in range(500)]])
    log.close()
    content = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(content[: len(content) // 2] + b"\xff" * (len(content) // 2))
    ids = IdMap.of(["a"])
    trained: Any = SimpleNamespace(metrics={}, features=None, users=ids, items=ids)
    with pytest.raises(UserError, match=r"damaged|cannot be opened"):
        new_events(tmp_path, trained)
