"""What the server tells about itself: JSON log lines and Prometheus counters that several workers share.

Every worker counts in its own small file of a shared folder; whoever is asked for /metrics adds them up. So the
numbers are those of the whole server, whichever worker answers.
"""

import json
import mmap
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
ROUTES = ("recommend", "recommend_many", "similar", "similar_users", "health", "metrics", "page", "api", "other")
CLASSES = ("2xx", "3xx", "4xx", "5xx")
EVENTS = ("model_reloads", "model_reload_failures")
_PER_ROUTE = len(CLASSES) + len(BUCKETS) + 2  # statuses, cumulative buckets, sum and count
_SLOTS = len(ROUTES) * _PER_ROUTE + len(EVENTS)


class Telemetry:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._numbers: NDArray[np.float64] = np.zeros(_SLOTS)
        if folder is not None:
            with open(folder / f"{os.getpid()}.counts", "w+b") as file:
                file.truncate(8 * _SLOTS)
                self._numbers = np.frombuffer(mmap.mmap(file.fileno(), 8 * _SLOTS), dtype=np.float64)

    def request(self, route: str, status: int, seconds: float) -> None:
        start = ROUTES.index(route if route in ROUTES else "other") * _PER_ROUTE
        with self._lock:
            self._numbers[start + min(max(status // 100, 2), 5) - 2] += 1
            buckets = start + len(CLASSES)
            for place, bound in enumerate(BUCKETS):
                if seconds <= bound:
                    self._numbers[buckets + place] += 1
            self._numbers[buckets + len(BUCKETS)] += seconds
            self._numbers[buckets + len(BUCKETS) + 1] += 1

    def event(self, name: str) -> None:
        with self._lock:
            self._numbers[len(ROUTES) * _PER_ROUTE + EVENTS.index(name)] += 1

    def text(self, gauges: dict[str, float]) -> str:
        """Everything in Prometheus' text format."""
        numbers = self._total()
        lines = ["# HELP legcf_requests_total Requests answered.", "# TYPE legcf_requests_total counter"]
        for place, route in enumerate(ROUTES):
            for offset, kind in enumerate(CLASSES):
                value = numbers[place * _PER_ROUTE + offset]
                if value:
                    lines.append(f'legcf_requests_total{{route="{route}",status="{kind}"}} {value:.0f}')
        lines += ["# HELP legcf_request_seconds Time to answer.", "# TYPE legcf_request_seconds histogram"]
        for place, route in enumerate(ROUTES):
            start = place * _PER_ROUTE + len(CLASSES)
            count = numbers[start + len(BUCKETS) + 1]
            if count:
                for offset, bound in enumerate(BUCKETS):
                    value = numbers[start + offset]
                    lines.append(f'legcf_request_seconds_bucket{{route="{route}",le="{bound}"}} {value:.0f}')
                lines.append(f'legcf_request_seconds_bucket{{route="{route}",le="+Inf"}} {count:.0f}')
                lines.append(f'legcf_request_seconds_sum{{route="{route}"}} {numbers[start + len(BUCKETS)]:.6f}')
                lines.append(f'legcf_request_seconds_count{{route="{route}"}} {count:.0f}')
        for place, name in enumerate(EVENTS):
            value = numbers[len(ROUTES) * _PER_ROUTE + place]
            lines += [f"# TYPE legcf_{name}_total counter", f"legcf_{name}_total {value:.0f}"]
        for name, value in gauges.items():
            lines += [f"# TYPE legcf_{name} gauge", f"legcf_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _total(self) -> NDArray[np.float64]:
        if self._folder is None:
            return self._numbers
        total = np.zeros(_SLOTS)
        for path in self._folder.glob("*.counts"):
            content = path.read_bytes()
            if len(content) == 8 * _SLOTS:
                total += np.frombuffer(content, dtype=np.float64)
        return total


def log(event: str, level: str = "info", **facts: Any) -> None:
    """One line of JSON on stderr."""
    line = {"time": round(time.time(), 3), "level": level, "event": event, "pid": os.getpid(), **facts}
    print(json.dumps(line, ensure_ascii=False, default=str), file=sys.stderr, flush=True)
