"""The span of a run, which is the root of its trace; sent by OTLP over HTTP when the run has ended.

The SDK reads the usual `OTEL_*` variables itself, and is imported only if they name an endpoint.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from kais import trace_context
from kais.outcomes import Outcome
from knowledge_client import models

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import SpanContext

_NANOSECONDS = 1_000_000_000
_NOT_FAILED = frozenset({Outcome.SUCCEEDED, Outcome.CANCELLED})


class RunSpans:
    """Sends the spans of runs in the background; `close` it."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def record(self, run_id: str, run: models.RunIn, traceparent: str) -> None:
        """Send the span of a run that has ended; one that never started has none."""
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - only with an endpoint
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

        if run.started_at is None or run.finished_at is None:
            return
        root = trace_context.derive(run_id)
        is_root_span = traceparent == root
        has_failed = run.outcome not in _NOT_FAILED
        span = ReadableSpan(
            name=f"mission {run.mission}",
            context=_context(traceparent, span_of=root),
            parent=None if is_root_span else _context(traceparent, span_of=traceparent),
            resource=self._resource,
            attributes=_attributes(run_id, run),
            status=Status(StatusCode.ERROR if has_failed else StatusCode.UNSET),
            start_time=_nanoseconds(run.started_at),
            end_time=_nanoseconds(run.finished_at),
        )
        self._processor.on_end(span)

    def close(self) -> None:
        """Send what is left."""
        self._processor.shutdown()


def start() -> RunSpans:
    """Import the SDK, and send spans to the endpoint of the environment."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    service_resource = Resource.create({"service.name": "kais-operator"})
    resource = service_resource.merge(OTELResourceDetector().detect())
    return RunSpans(BatchSpanProcessor(OTLPSpanExporter()), resource)


def _context(traceparent: str, *, span_of: str) -> SpanContext:
    """Return a context in the trace of one traceparent, with the span of another."""
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415

    _, trace, _, flags = traceparent.split("-")
    span = span_of.split("-")[2]
    return SpanContext(
        int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(int(flags, 16))
    )


def _attributes(run_id: str, run: models.RunIn) -> dict[str, str | int | float]:
    counters = run.counters or {}
    attributes: dict[str, Any] = {
        "kais.run.id": run_id,
        "kais.outcome": run.outcome,
        "kais.attempts": run.attempts,
        "kais.blueprint": run.blueprint,
        "kais.instance": run.instance,
        "k8s.namespace.name": run.namespace,
        "gen_ai.usage.input_tokens": counters.get("inputTokens"),
        "gen_ai.usage.output_tokens": counters.get("outputTokens"),
        "kais.cost_usd": run.cost,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * _NANOSECONDS)
