"""Middleware of every request: error responses, metrics and one log line."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from knowledge_client import base_model
from knowledge_service.routes import problems

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from knowledge_service.metrics import Metrics

_log = logging.getLogger("knowledge_service.access")
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

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

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


def record_request(
    metrics: Metrics, template: str, method: str, status: int, seconds: float
) -> None:
    """Count and log one request."""
    metrics.record_request(template, method, status, seconds)
    level = logging.DEBUG if template in ("/healthz", "/readyz", "/health") else logging.INFO
    if _log.isEnabledFor(level):
        fields = {"route": template, "method": method, "status": status}
        extra = {"fields": {**fields, "ms": round(seconds * 1000, 2)}}
        # Looking up the calling line would cost time in every request and tell nothing.
        _log.handle(_log.makeRecord(_log.name, level, "", 0, "request", (), None, extra=extra))
