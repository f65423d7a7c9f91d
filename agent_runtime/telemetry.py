"""Traces of the work of a mind, sent by OTLP over HTTP; without an endpoint no SDK is imported.

The SDK reads the usual `OTEL_*` variables itself. Spans contain no text of prompts, answers, tools
or errors, unless the standard variable for content asks for it, and never the key of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

from kais import trace_context

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

_SCOPE: Final = "kais.agent_runtime"
_FLUSH_MS: Final = 5000
_parent: ContextVar[str | None] = ContextVar("traceparent", default=None)


@dataclass(frozen=True)
class Traces:
    """Sends the spans of this process; call `close` at the end.

    Attributes:
        cell: name of the cell, which is the name of the agent in spans.
        has_content: whether spans contain the texts of prompts, answers and tool calls.
    """

    provider: TracerProvider
    cell: str
    has_content: bool

    def close(self) -> None:
        """Send what is left, within a few seconds."""
        self.provider.force_flush(_FLUSH_MS)
        self.provider.shutdown()


def start(cell: str, mask: Callable[[str], str], *, has_content: bool) -> Traces:
    """Import the SDK, and send spans to the endpoint of the environment; `mask` hides the key."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    from agent_runtime.span_content import ContentFilter  # noqa: PLC0415

    resource = Resource.create({"service.name": "kais-agent", "kais.cell": cell})
    provider = TracerProvider(
        resource=resource.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    exporter = ContentFilter(OTLPSpanExporter(), mask, has_content=has_content)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Traces(provider, cell, has_content)


@contextmanager
def attempt(
    traces: Traces | None, traceparent: str | None, *, run_id: str | None, attempt: int | None
) -> Iterator[None]:
    """Work on an attempt within the trace of its run."""
    reset = _parent.set(traceparent)
    try:
        if traces is None:
            yield
            return
        with _span(traces, traceparent, run_id, attempt):
            yield
    finally:
        _parent.reset(reset)


@contextmanager
def _span(
    traces: Traces, traceparent: str | None, run_id: str | None, attempt: int | None
) -> Iterator[None]:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    attributes = {"kais.run.id": run_id, "kais.attempt": attempt}
    with traces.provider.get_tracer(_SCOPE).start_as_current_span(
        f"attempt {traces.cell}",
        context=_context(traceparent),
        attributes={name: value for name, value in attributes.items() if value is not None},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as exc:
            span.set_attribute("error.type", _error_type(exc))
            span.set_status(Status(StatusCode.ERROR))
            raise


def _error_type(error: BaseException) -> str:
    failure = getattr(error, "failure", None)
    return str(failure.reason) if failure is not None else type(error).__name__


def _context(traceparent: str | None) -> Context:
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    carrier = {} if traceparent is None else {trace_context.HEADER: traceparent}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def headers() -> Mapping[str, str]:
    """Return the header with which another server joins the trace; empty without a trace."""
    traceparent = _parent.get()
    if traceparent is None:
        return {}
    from opentelemetry import trace  # noqa: PLC0415 - part of the agent library

    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        flags = int(span.trace_flags)
        traceparent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{flags:02x}"
    return {trace_context.HEADER: traceparent}


class TracedTransport(httpx.AsyncBaseTransport):
    """Adds the trace of the run to requests."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        request.headers.update(headers())
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
