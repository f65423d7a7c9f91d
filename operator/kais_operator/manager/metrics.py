"""The operator's metrics, in a registry of their own; labels have a bounded set of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import metadata

import prometheus_client
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kais_operator.planning.plan import ObjectRef


class Metrics:
    """Counters and histograms, and gauges that are read at each scrape."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._reconciles = prometheus_client.Counter(
            "kais_reconcile",
            "Reconciles by kind and result",
            ("kind", "result"),
            registry=self.registry,
        )
        self._seconds = prometheus_client.Histogram(
            "kais_reconcile_duration_seconds",
            "Duration of a reconcile",
            ("kind",),
            buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=self.registry,
        )
        self._watch_age = prometheus_client.Gauge(
            "kais_watch_last_event_age_seconds",
            "Seconds since the last watch event",
            ("kind",),
            registry=self.registry,
        )
        self._renders = self._counter(
            "kais_renders", "Requests to the render workers", "operation", "result"
        )
        self._render_seconds = prometheus_client.Histogram(
            "kais_render_seconds",
            "Time until the render workers responded, including the wait for one",
            ("operation",),
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60),
            registry=self.registry,
        )
        self._mission_seconds = prometheus_client.Histogram(
            "kais_mission_seconds",
            "Time from a mission's start to its end",
            ("outcome",),
            buckets=(1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400),
            registry=self.registry,
        )
        self._runs = self._counter(
            "kais_runs", "Runs that the knowledge service recorded", "outcome"
        )
        self._tokens = self._counter(
            "kais_model_tokens", "Tokens of models in recorded runs", "direction"
        )
        self._cost = self._counter(
            "kais_model_cost_usd", "Known cost of models in recorded runs, in US dollars"
        )
        self._turns = self._counter("kais_agent_turns", "Calls of models in recorded runs")
        self._tool_calls = self._counter("kais_agent_tool_calls", "Tool calls in recorded runs")
        for direction in ("input", "output"):
            self._tokens.labels(direction=direction)
        self._extractions = self._counter("kais_extractions", "Runs sent to extraction", "result")
        self._gauge("kais_loop_lag_seconds", "Delay of the event loop", lambda: self.loop_lag_s)
        self.loop_lag_s = 0.0
        info = prometheus_client.Gauge(
            "kais_build_info", "Version of the operator", ("version",), registry=self.registry
        )
        info.labels(version=metadata.version("kais")).set(1)

    def record_reconcile(self, key: ObjectRef, *, result: str, seconds: float) -> None:
        """Count one reconcile; the observer of `WorkQueue`."""
        self._reconciles.labels(kind=key.kind, result=result).inc()
        self._seconds.labels(kind=key.kind).observe(seconds)

    def export_queue(self, depth: Callable[[], float], age_s: Callable[[], float]) -> None:
        """Export the depth of the queue, and the age of its oldest due key."""
        self._gauge("kais_queue_depth", "Queued keys, including delayed ones", depth)
        self._gauge(
            "kais_queue_oldest_age_seconds", "How long the oldest due key has waited", age_s
        )

    def export_watch_age(self, kind: str, age_s: Callable[[], float]) -> None:
        """Export the age of a kind's last event."""
        self._watch_age.labels(kind=kind).set_function(age_s)

    def export_requests(self, sent: Mapping[tuple[str, str], int]) -> None:
        """Export the requests by verb and resource; `sent` is read at each scrape."""
        self.registry.register(_RequestCollector(sent))

    def record_render(self, operation: str, result: str, seconds: float) -> None:
        """Count one request to the render workers; see `rendering.renderer`."""
        self._renders.labels(operation=operation, result=result).inc()
        self._render_seconds.labels(operation=operation).observe(seconds)

    def record_run(self, outcome: str, seconds: float | None) -> None:
        """Count a run that the knowledge service recorded; `seconds` is None until it has ended."""
        self._runs.labels(outcome=outcome).inc()
        if seconds is not None:
            self._mission_seconds.labels(outcome=outcome).observe(seconds)

    def record_usage(self, counters: Mapping[str, int], cost: float | None) -> None:
        """Count what models did in a run that has ended; see `knowledge.client`."""
        self._tokens.labels(direction="input").inc(counters.get("inputTokens", 0))
        self._tokens.labels(direction="output").inc(counters.get("outputTokens", 0))
        self._turns.inc(counters.get("turns", 0))
        self._tool_calls.inc(counters.get("toolCalls", 0))
        self._cost.inc(cost or 0)

    def record_extraction(self, result: str) -> None:
        """Count a run sent to extraction; see `knowledge.client`."""
        self._extractions.labels(result=result).inc()

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> prometheus_client.Counter:
        return prometheus_client.Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        prometheus_client.Gauge(name, text, registry=self.registry).set_function(read)


class _RequestCollector(Collector):
    """Exports counts that another object keeps."""

    def __init__(self, sent: Mapping[tuple[str, str], int]) -> None:
        self._sent = sent

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the current counts."""
        family = CounterMetricFamily(
            "kais_api_requests", "Requests to the API server", labels=["verb", "resource"]
        )
        for (verb, resource), count in sorted(self._sent.items()):
            family.add_metric([verb, resource], count)
        yield family
