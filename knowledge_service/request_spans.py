"""The spans of the service in the traces of runs, sent by OTLP over HTTP in the background.

Only requests with a `traceparent` have one, and the extractions of runs. The SDK reads the usual
`OTEL_*` variables itself, and is imported only if they name an endpoint. Spans have the template of
a route and ids, and no content of facts, episodes or questions.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kais import trace_context
from knowledge_service.clock import Clock

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import SpanContext

RunKey = tuple[str, str]
"""Realm and id of a run; two realms may use the same id."""
_MAX_RUNS: Final = 10_000
"""Runs whose trace is remembered between a request and the extraction; arbitrary, about 2 MiB."""
_FLUSH_S: Final = 2.0
"""The SDK would wait 30 s, which is all that the pod has to end."""
_FAILED_STATUS: Final = 500
_NANOSECONDS: Final = 1_000_000_000


class RequestSpans:
    """Sends spans; `close` it. The methods may be called from any thread."""

    def __init__(self, processor: SpanProcessor, resource: Resource, clock: Clock) -> None:
        self._processor = processor
        self._resource = resource
        self._clock = clock
        self._runs: OrderedDict[RunKey, str] = OrderedDict()
        self._lock = threading.Lock()
        self._ids = random.SystemRandom()

    def close(self) -> None:
        """Send the remaining spans; wait at most `_FLUSH_S` for a collector that hangs."""
        flush = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        flush.start()
        flush.join(_FLUSH_S)

    def remember_run(self, key: RunKey, traceparent: str) -> None:
        """Keep the trace in which a run was opened, updated or closed."""
        with self._lock:
            self._runs[key] = traceparent
            self._runs.move_to_end(key)
            if len(self._runs) > _MAX_RUNS:
                self._runs.popitem(last=False)

    def record_request(
        self, traceparent: str, *, method: str, route: str, status: int, seconds: float
    ) -> None:
        """Send the span of a request that has been answered."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - only with an endpoint

        attributes = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
        }
        if status >= _FAILED_STATUS:
            attributes["error.type"] = str(status)
        self._send(f"{method} {route}", traceparent, attributes, seconds, kind=SpanKind.SERVER)

    @contextmanager
    def extraction(self, key: RunKey) -> Iterator[dict[str, Any]]:
        """Send a span of an extraction with the attributes that the block adds.

        After a restart of the service it is in the trace that follows from the run-id.
        """
        started, (_, run_id) = self._clock(), key
        attributes: dict[str, Any] = {"kais.run.id": run_id}
        try:
            yield attributes
        except BaseException as exc:
            attributes["error.type"] = type(exc).__name__
            raise
        finally:
            with self._lock:
                traceparent = self._runs.get(key) or trace_context.derive(run_id)
            seconds = (self._clock() - started).total_seconds()
            self._send("extract facts", traceparent, attributes, seconds)

    def _send(
        self,
        name: str,
        traceparent: str,
        attributes: Mapping[str, Any],
        seconds: float,
        *,
        kind: Any = None,
    ) -> None:
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

        parent = _context(traceparent)
        ended_ns = _nanoseconds(self._clock())
        has_failed = "error.type" in attributes
        self._processor.on_end(
            ReadableSpan(
                name=name,
                context=_context(traceparent, span_id=self._ids.getrandbits(64) or 1),
                parent=parent,
                resource=self._resource,
                attributes=attributes,
                kind=kind or SpanKind.INTERNAL,
                status=Status(StatusCode.ERROR if has_failed else StatusCode.UNSET),
                start_time=ended_ns - int(max(0.0, seconds) * _NANOSECONDS),
                end_time=ended_ns,
            )
        )


def start(clock: Clock) -> RequestSpans:
    """Import the SDK, and send spans to the endpoint of the environment."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    service_resource = Resource.create({"service.name": "kais-knowledge"})
    resource = service_resource.merge(OTELResourceDetector().detect())
    return RequestSpans(BatchSpanProcessor(OTLPSpanExporter()), resource, clock)


def traced_extraction(spans: RequestSpans | None, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs an extraction, and sends its span if spans are enabled."""
    if spans is None:
        return run

    def run_traced(store: Any, key: Any, **options: Any) -> Any:
        with spans.extraction(key) as attributes:
            extraction = run(store, key, **options)
            attributes["kais.extraction.state"] = extraction.state
            attributes["kais.extraction.facts"] = len(extraction.facts)
            if extraction.model:
                attributes["gen_ai.request.model"] = extraction.model
            return extraction

    return run_traced


def _context(traceparent: str, *, span_id: int | None = None) -> SpanContext:
    """Return the context of a traceparent, or of another span in its trace."""
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415

    _, trace, parent, flags = traceparent.split("-")
    return SpanContext(
        int(trace, 16),
        span_id or int(parent, 16),
        is_remote=span_id is None,
        trace_flags=TraceFlags(int(flags, 16)),
    )


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * _NANOSECONDS)
