"""Prometheus metrics; labels are routes, methods and states, never names from requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from knowledge_service.errors import ServiceError

FACT_COUNTS_MAX_AGE_S = 30.0
"""Maximum age of the counts of facts: more frequent scrapes do not read the store."""


class Metrics:
    """The metrics of the service, in a registry of its own, so that a process can have two apps."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "kais_knowledge_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "kais_knowledge_request_seconds",
            "Time to answer by route.",
            ("route",),
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=self.registry,
        )
        self.extractions = Counter(
            "kais_knowledge_extractions",
            "Extractions by how they ended.",
            ("state",),
            registry=self.registry,
        )
        self._unverified_extractions = Counter(
            "kais_knowledge_unverified_extractions",
            "Extractions by a model with facts that have no verdict of it, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.extraction_seconds = Histogram(
            "kais_extraction_seconds",
            "Duration of the attempt that ended an extraction, by its final state.",
            ("state",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=self.registry,
        )
        self.receipts_waiting_s = Gauge(
            "kais_knowledge_receipts_waiting_seconds",
            "Age of the oldest unstored receipt without a run, in seconds.",
            registry=self.registry,
        )
        self._upkeep_failures = Counter(
            "kais_knowledge_upkeep_failures",
            "Failed runs of a task: retention, erasure, receipts, extraction, embedding.",
            ("task",),
            registry=self.registry,
        )
        self._upkeep_success = Gauge(
            "kais_knowledge_upkeep_last_success_timestamp_seconds",
            "Time of a background task's last success, in seconds since 1970.",
            ("task",),
            registry=self.registry,
        )
        self._facts_to_erase = Gauge(
            "kais_knowledge_facts_to_erase",
            "Facts of deleted scopes that are not erased yet; no route serves them.",
            registry=self.registry,
        )
        self.erased_pending_s = Gauge(
            "kais_knowledge_erased_bytes_pending_seconds",
            "How long the write-ahead log has held bytes of erased facts; 0 when it holds none.",
            registry=self.registry,
        )
        self._erasures_with_open_responses = Counter(
            "kais_knowledge_erasures_with_open_responses",
            "Erasures acknowledged while responses from before them were not sent within 10 s.",
            registry=self.registry,
        )
        self.search_process_up = Gauge(
            "kais_knowledge_search_process_up",
            "1 while the search process runs the searches, 0 while the service does.",
            registry=self.registry,
        )
        self._search_process_failures = Counter(
            "kais_knowledge_search_process_failures",
            "Failures of the search process by reason; after each, it is started again.",
            ("reason",),
            registry=self.registry,
        )
        self._request_series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def record_extraction(self, state: str, seconds: float) -> None:
        """Count one finished extraction."""
        self.extractions.labels(state).inc()
        self.extraction_seconds.labels(state).observe(seconds)

    def record_unverified_extraction(self, reason: str) -> None:
        """Count one extraction in which facts have no verdict of the model."""
        self._unverified_extractions.labels(reason).inc()

    def watch_facts(
        self,
        count: Callable[[], Mapping[str, int]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Export the number of live facts by level of scope; `count` is called on scrapes."""
        self.registry.register(_FactCounts(count, monotonic))

    def watch_facts_to_erase(self, count: Callable[[], int]) -> None:
        """Export the number of facts to erase; NaN while the store cannot be read.

        A sample stays, because the alert about a service that is away looks for it.
        """

        def count_or_nan() -> float:
            try:
                return count()
            except ServiceError:
                return math.nan

        self._facts_to_erase.set_function(count_or_nan)

    def record_task_run(self, task: str, succeeded: bool) -> None:
        """Count one run of a background task."""
        if succeeded:
            self._upkeep_success.labels(task).set_to_current_time()
        else:
            self._upkeep_failures.labels(task).inc()

    def record_erasure_with_open_responses(self) -> None:
        """Count one erasure that stopped waiting for responses of earlier requests."""
        self._erasures_with_open_responses.inc()

    def record_search_process_failure(self, reason: str) -> None:
        """Count one failure of the search process."""
        self._search_process_failures.labels(reason).inc()

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one response."""
        series = self._request_series.get((route, method, status))
        if series is None:
            series = (
                self.requests.labels(route, method, str(status)),
                self.seconds.labels(route),
            )
            self._request_series[(route, method, status)] = series
        series[0].inc()
        series[1].observe(seconds)

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    @contextmanager
    def serve(self, host: str, port: int | None) -> Iterator[None]:
        """Serve Prometheus on a separate port during the block; with None, serve nothing."""
        if port is None:
            yield
            return
        server, thread = start_http_server(port, host, self.registry)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _FactCounts(Collector):
    """Counts of facts, read from the store at most once in `FACT_COUNTS_MAX_AGE_S`."""

    def __init__(
        self, count: Callable[[], Mapping[str, int]], monotonic: Callable[[], float]
    ) -> None:
        self._count = count
        self._monotonic = monotonic
        self._counted: Mapping[str, int] = {}
        self._read_at: float | None = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe the metric without reading the store, which may not be open yet."""
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the latest counts; none while the store cannot be read, which /readyz reports."""
        now_s = self._monotonic()
        if self._read_at is None or now_s - self._read_at >= FACT_COUNTS_MAX_AGE_S:
            try:
                self._counted = self._count()
            except ServiceError:
                self._counted = {}
            self._read_at = now_s
        family = self._family()
        for level, count in self._counted.items():
            family.add_metric([level], count)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "kais_knowledge_facts", "Live facts by the level of their scope.", labels=["level"]
        )
