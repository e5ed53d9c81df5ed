# SPDX-License-Identifier: Apache-2.0
"""Open Debian's chromium and serve folders to it."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
SWITCHES = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60_000  # milliseconds; a busy machine is no failure


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield the browser; skip the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")
    if CHROMIUM is None:
        pytest.skip("Debian's chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """Yield the address of a static host of this folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None: ...


@contextmanager
def opened(browser: Any, expected: tuple[str, ...] = (), **options: Any) -> Iterator[Any]:
    """Yield a page in a window of its own; an error in its console fails the test, unless it is expected."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, "color_scheme": "light", **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not [text for text in complaints if not any(part in text for part in expected)]
