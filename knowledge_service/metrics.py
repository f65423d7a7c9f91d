"""What Prometheus may ask; labels are routes, methods and states, never names from requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The service's counters, in a registry of their own so that two apps can live in a process."""

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

        self._upkeep_failures = Counter(
            "kais_knowledge_upkeep_failures",
            "Runs of a background task (retention, erasure, receipts) that failed.",
            ("task",),
            registry=self.registry,
        )
        self._upkeep_success = Gauge(
            "kais_knowledge_upkeep_last_success_timestamp_seconds",
            "When a background task succeeded last, in seconds since 1970.",
            ("task",),
            registry=self.registry,
        )
        self.facts_to_erase = Gauge(
            "kais_knowledge_facts_to_erase",
            "Facts of deleted scopes that are still to be erased; nobody reads them.",
            registry=self.registry,
        )
        self.erased_pending_s = Gauge(
            "kais_knowledge_erased_bytes_pending_seconds",
            "How long the write-ahead log has held bytes of erased facts; 0 when it holds none.",
            registry=self.registry,
        )
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def upkeep_ran(self, task: str, succeeded: bool) -> None:
        """Count one run of a background task."""
        if succeeded:
            self._upkeep_success.labels(task).set_to_current_time()
        else:
            self._upkeep_failures.labels(task).inc()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._answered.get((route, method, status))
        if found is None:
            found = (
                self.requests.labels(route, method, str(status)),
                self.seconds.labels(route),
            )
            self._answered[(route, method, status)] = found
        found[0].inc()
        found[1].observe(seconds)

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)
