"""Middleware of every request: error responses, metrics and one log line."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kais import trace_context
from knowledge_client import base_model
from knowledge_service.routes import dependencies, problems

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from knowledge_service.metrics import Metrics
    from knowledge_service.request_spans import RequestSpans

_log = logging.getLogger("knowledge_service.access")
_TRACEPARENT = trace_context.HEADER.encode()
_LEVEL_HEADER = (base_model.API_LEVEL_HEADER.lower().encode(), str(base_model.API_LEVEL).encode())
# Callers may invent methods; a label for each would fill the memory.
_KNOWN_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class ErrorResponses:
    """Turns exceptions into problem responses, unless the response has started."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an exception, so that the server neither logs it again nor disconnects."""
        has_response_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_response_started
            has_response_started = has_response_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as exc:
            if has_response_started:
                raise
            await problems.response_to(scope, exc)(scope, receive, send)


class RequestMetrics:
    """Counts and logs each request by the template of its route, never by its path."""

    def __init__(self, app: ASGIApp, metrics: Metrics, spans: RequestSpans | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Measure a request, and add the API level to its response."""
        started, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), _LEVEL_HEADER]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            template = getattr(scope.get("route"), "path", "unmatched")
            method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
            seconds = time.perf_counter() - started
            record_request(self._metrics, template, method, status, seconds)
            if self._spans is not None and dependencies.PRINCIPAL in scope:
                record_span(self._spans, scope, template, status=status, seconds=seconds)


def record_span(
    spans: RequestSpans, scope: Scope, template: str, *, status: int, seconds: float
) -> None:
    """Record a span of an authenticated request if it belongs to the trace of a run."""
    sent = (value for name, value in scope["headers"] if name == _TRACEPARENT)
    traceparent = trace_context.parse(next(sent, b"").decode("latin-1"))
    if traceparent is None:
        return
    method = scope["method"] if scope["method"] in _KNOWN_METHODS else "other"
    spans.record_request(traceparent, method=method, route=template, status=status, seconds=seconds)
    if dependencies.RUN in scope:
        spans.remember_run(scope[dependencies.RUN], traceparent)


def record_request(
    metrics: Metrics, template: str, method: str, status: int, seconds: float
) -> None:
    """Count and log one request."""
    metrics.record_request(template, method, status, seconds)
    level = logging.DEBUG if template in ("/healthz", "/readyz", "/health") else logging.INFO
    if _log.isEnabledFor(level):
        fields = {"route": template, "method": method, "status": status}
        extra = {"fields": {**fields, "ms": round(seconds * 1000, 2)}}
        # Built by hand, because finding the calling line would cost time in every request.
        _log.handle(_log.makeRecord(_log.name, level, "", 0, "request", (), None, extra=extra))
