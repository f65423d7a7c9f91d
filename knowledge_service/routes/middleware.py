"""What happens around every request: a bound on the body, faults, counters, one log line."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from knowledge_service.errors import TooLarge
from knowledge_service.routes import problems

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from knowledge_service.metrics import Metrics

_log = logging.getLogger("knowledge_service.access")
# 200 facts of 8,192 characters and the JSON around them, with room for escapes.
MAX_BODY = 8 * 1024 * 1024
_BATCHES = frozenset({"/v1/facts:batch", "/v1/episodes", "/v1/stats:batch"})
# One fact with all that it may have, each character of it escaped.
_MAX_ONE = 1024 * 1024
# Callers may make methods up; a label of each would fill the memory.
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


def limit_of(path: str) -> int:
    """Return how many bytes the body of a request may have."""
    return MAX_BODY if path in _BATCHES else _MAX_ONE


def is_within(length: bytes, limit: int) -> bool:
    """Tell whether a `Content-Length` is a number up to a limit; digits may be many."""
    digits = length.lstrip(b"0") or b"0"
    is_number = length.isdigit() and len(digits) <= len(str(limit))
    return is_number and int(digits) <= limit


class BodyLimit:
    """Refuses bodies beyond the limit, whether they say their length or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the body's bytes as they come."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = limit_of(scope["path"])
        refusal = TooLarge(f"the body exceeds {limit} bytes")
        if not is_within(dict(scope["headers"]).get(b"content-length", b"0"), limit):
            await problems.response(refusal)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                # FastAPI lets nothing but this through from reading a body.
                raise HTTPException(refusal.status, refusal.detail)
            return message

        await self._app(scope, counted, send)


class Faults:
    """Answers what nobody foresaw, so that the server neither logs it again nor hangs up."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Turn an exception into a problem, unless the answer has begun."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as exc:
            if scope["type"] != "http" or begun:
                raise
            await problems.fault(scope["path"], exc)(scope, receive, send)


class Observed:
    """Counts and logs each request by its route's template, never by its path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Time a request and note its status."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route: Any = scope.get("route")
            template = getattr(route, "path", "unmatched")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            note(self._metrics, template, method, status, time.perf_counter() - started)


def note(metrics: Metrics, template: str, method: str, status: int, seconds: float) -> None:
    """Count and log one answer."""
    metrics.answered(template, method, status, seconds)
    level = logging.DEBUG if template in ("/healthz", "/readyz", "/health") else logging.INFO
    if _log.isEnabledFor(level):
        fields = {"route": template, "method": method, "status": status}
        told = {"fields": {**fields, "ms": round(seconds * 1000, 2)}}
        # Every request comes through here; to find out from which line is no use and has its cost.
        _log.handle(_log.makeRecord(_log.name, level, "", 0, "request", (), None, extra=told))
