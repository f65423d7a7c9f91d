"""What happens around every request: errors become responses, counters, one log line."""

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
# 200 facts of 8,192 characters and the JSON around them, with room for escapes.
MAX_BODY_BYTES = 8 * 1024 * 1024
_BATCH_PATHS = frozenset({"/v1/facts:batch", "/v1/episodes", "/v1/stats:batch"})
# One fact with all that it may have, each character of it escaped.
_MAX_SINGLE_BODY_BYTES = 1024 * 1024
_LEVEL_HEADER = (base_model.API_LEVEL_HEADER.lower().encode(), str(base_model.API_LEVEL).encode())
# Callers may make methods up; a label of each would fill the memory.
_KNOWN_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


def max_body_bytes(path: str) -> int:
    """Return how many bytes the body of a request may have."""
    return MAX_BODY_BYTES if path in _BATCH_PATHS else _MAX_SINGLE_BODY_BYTES


def is_within(length: str, limit: int) -> bool:
    """Tell whether a `Content-Length` is a number up to a limit; digits may be many."""
    digits = length.lstrip("0") or "0"
    is_number = length.isascii() and length.isdigit() and len(digits) <= len(str(limit))
    return is_number and int(digits) <= limit


class ErrorResponses:
    """Answers every exception with a problem, unless the response has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Turn an exception into a response: the server must neither log it again nor hang up."""
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as exc:
            if has_begun:
                raise
            await problems.response_to(scope, exc)(scope, receive, send)


class RequestMetrics:
    """Counts and logs each request by its route's template, never by its path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Time a request and note its status; every response names the level of the interface."""
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
        # Every request comes through here; to find out from which line is no use and has its cost.
        _log.handle(_log.makeRecord(_log.name, level, "", 0, "request", (), None, extra=extra))
