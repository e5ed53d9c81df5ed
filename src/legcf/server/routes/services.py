# SPDX-License-Identifier: Apache-2.0
"""Start and stop what the routes of one worker process share."""

from dataclasses import dataclass
from pathlib import Path

from legcf.server.background.event_journal import Journal
from legcf.server.background.process import Helper
from legcf.server.background.queue import SlowQueue
from legcf.server.settings import Settings
from legcf.server.state.event_log import EventLog
from legcf.server.state.live_state import LiveState
from legcf.server.state.model_manager import ModelManager
from legcf.server.telemetry import Telemetry


@dataclass(frozen=True)
class Services:
    """Hold the model in use, what was reported since, and where long work and events go.

    `journal` and `log` are None where the server takes no events.
    """

    settings: Settings
    telemetry: Telemetry
    log: EventLog | None
    manager: ModelManager
    live: LiveState
    journal: Journal | None
    slow_queue: SlowQueue
    helper: Helper

    @classmethod
    def start(cls, settings: Settings) -> "Services":
        telemetry = Telemetry(settings.counts)
        log = None if settings.events is None else EventLog(settings.events)
        manager = ModelManager(Path(settings.model), telemetry, settings.cache_bytes, log)
        live, journal = LiveState(log), None if log is None else Journal(log)
        return cls(settings, telemetry, log, manager, live, journal, SlowQueue(), Helper(manager.path, live))

    async def stop(self) -> None:
        self.slow_queue.close()
        await self.helper.close()
        if self.journal is not None:
            await self.journal.close()
        if self.log is not None:
            self.log.close()
