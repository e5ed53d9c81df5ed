# SPDX-License-Identifier: Apache-2.0
"""Write one line of JSON on stderr for each event of the running server."""

import json
import logging
import os
import sys
import time
from contextlib import suppress
from typing import Any


def log(event: str, level: str = "info", **facts: Any) -> None:
    line = {"time": round(time.time(), 3), "level": level, "event": event, "pid": os.getpid(), **facts}
    with suppress(OSError):  # a full disk, or nobody who reads: the server goes on without a log
        sys.stderr.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        sys.stderr.flush()


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log("server", record.levelname.lower(), message=record.getMessage())


def log_uvicorn() -> None:
    """Let uvicorn's warnings be lines of JSON, too; in every process that runs it."""
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_JsonHandler()]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
