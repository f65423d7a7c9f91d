"""The event stream as server-sent events, and the audit log."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from knowledge_client import base_model
from knowledge_client.models import AuditPage
from knowledge_service.domain.access_control import Principal
from knowledge_service.errors import ServiceError
from knowledge_service.routes.dependencies import (
    CallerDep,
    OffloadDep,
    ServicesDep,
    bearer_token_of,
    speaking_as,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import event_stream
from knowledge_service.use_cases.services import Services

# The delay of an event at most; reading the end of the log takes some microseconds.
_POLL_INTERVAL_S = 0.25
_KEEPALIVE_S = 15.0
# How often the token of a stream is checked again: a revoked one ends its stream.
_REAUTHENTICATION_S = 10.0
# An arbitrary number; clients reconnect with the id of the last event.
_MAX_STREAM_S = 300.0

# A client that accepts no data for this long has stopped reading.
_SEND_TIMEOUT_S = 20.0

_EVENT_STREAM_RESPONSE = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["events"], route_class=Endpoint)


@router.get("/events", response_class=StreamingResponse, responses={200: _EVENT_STREAM_RESPONSE})
async def events(
    request: Request,
    services: ServicesDep,
    principal: CallerDep,
    offload: OffloadDep,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=512)] = None,
) -> StreamingResponse:
    """Stream visible changes; `Last-Event-ID` resumes after an event, 410 when it is too old."""
    open_reader = functools.partial(
        event_stream.EventReader, services.store, principal, last_event_id
    )
    reader = await offload.run(open_reader, "lookups")
    subscription = services.subscription_limiter.subscribe(principal)
    stream = _EventStream(
        _event_lines(services, reader, _CallerGuard(services, request, principal), subscription),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    stream.subscription = subscription
    return stream


@router.get("/audit")
def audit(
    services: ServicesDep,
    principal: CallerDep,
    scope: str | None = None,
    cursor: Annotated[str | None, Query(max_length=512)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """List operations, including reads, in scopes that the caller administers, newest first."""
    return event_stream.list_audit_entries(
        services.store, principal, scope=scope, cursor=cursor, limit=limit
    )


class _EventStream(StreamingResponse):
    """A response that releases its subscription however it ends, even before its first line.

    It ends when the client stops reading: otherwise such a client would hold its subscription.
    """

    subscription: event_stream.Subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            with anyio.fail_after(_SEND_TIMEOUT_S):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            _log.info("stream closed: its client does not read")
        finally:
            self.subscription.release()


class _CallerGuard:
    """Checks that the token of a stream still belongs to the same principal."""

    def __init__(self, services: Services, request: Request, principal: Principal) -> None:
        self._authenticator = services.authenticator
        self._bearer = bearer_token_of(request.headers.get("authorization", ""))
        self._speak_as = request.headers.get(base_model.SPEAK_AS_HEADER)
        self._principal = principal
        self._checked_at_s = time.monotonic()

    async def has_changed(self, now_s: float) -> bool:
        """Return whether the token is invalid now, or stands for other rights or another caller."""
        if now_s - self._checked_at_s < _REAUTHENTICATION_S:
            return False
        self._checked_at_s = now_s
        try:
            principal = await self._authenticator.principal(self._bearer)
            return speaking_as(principal, self._speak_as) != self._principal
        except ServiceError:
            return True


async def _event_lines(
    services: Services,
    reader: event_stream.EventReader,
    guard: _CallerGuard,
    subscription: event_stream.Subscription,
) -> AsyncIterator[str]:
    yield ": listening\n\n"
    started_at_s = sent_at_s = time.monotonic()
    while (
        now_s := time.monotonic()
    ) - started_at_s < _MAX_STREAM_S and not services.subscription_limiter.is_closing:
        if subscription.is_over or await guard.has_changed(now_s):
            return
        is_behind = await anyio.to_thread.run_sync(lambda: reader.is_behind)
        for event in await anyio.to_thread.run_sync(reader.read) if is_behind else ():
            sent_at_s = now_s
            yield f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
        if now_s - sent_at_s >= _KEEPALIVE_S:
            sent_at_s = now_s
            yield ": still here\n\n"
        if not is_behind:
            await anyio.sleep(_POLL_INTERVAL_S)
