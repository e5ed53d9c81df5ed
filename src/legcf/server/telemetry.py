# SPDX-License-Identifier: Apache-2.0
"""Count requests and times of the server: Prometheus counters that several workers share.

With several workers each counts in files of its own in a shared folder (prometheus_client's multiprocess mode), and
whoever is asked for /metrics adds them up: the numbers are those of the whole server, whichever worker answers.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Telemetry:
    """Hold the counters. `counts` is the folder that workers share, in PROMETHEUS_MULTIPROC_DIR since they began."""

    def __init__(self, counts: str | None = None) -> None:
        self.registry = CollectorRegistry()  # of what this process is asked for at every reading
        counted = self.registry
        if counts is not None:
            MultiProcessCollector(self.registry, path=counts)  # type: ignore[no-untyped-call]
            counted = CollectorRegistry()  # read from the files, with those of the other workers
        self._requests = Counter("legcf_requests", "Requests answered.", ("route", "status"), registry=counted)
        self._seconds = Histogram(
            "legcf_request_seconds", "Time to answer.", ("route",), registry=counted, buckets=BUCKETS
        )
        self.reloads = Counter("legcf_model_reloads", "Times a replaced file was taken.", registry=counted)
        self.refusals = Counter("legcf_model_reload_failures", "Times a replaced file was refused.", registry=counted)
        self._labelled: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        key = route, min(max(status // 100, 1), 5)
        if key not in self._labelled:  # looking labels up takes longer than counting
            self._labelled[key] = self._requests.labels(route, f"{key[1]}xx"), self._seconds.labels(route)
        requests, times = self._labelled[key]
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
