"""The stream of changes as server-sent events, and the audit."""

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

from knowledge_client.models import AuditPage
from knowledge_service.domain.access_control import Principal
from knowledge_service.errors import ServiceError
from knowledge_service.routes.dependencies import (
    CallerDep,
    OffloadDep,
    ServicesDep,
    bearer_of,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import event_stream
from knowledge_service.use_cases.services import Services

# A change is told within this; one look at the end of the log takes some microseconds.
_LOOK_EVERY_S = 0.25
_SILENT_S = 15.0
# A caller is looked at anew so often: a token that was taken away ends its stream.
_ANEW_S = 10.0
# An arbitrary number; who listens asks again with the id of the last event.
_LONGEST_S = 300.0

# A client that takes nothing for so long reads no more.
_SEND_S = 20.0

_STREAM = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["events"], route_class=Endpoint)


@router.get("/events", response_class=StreamingResponse, responses={200: _STREAM})
async def events(
    request: Request,
    services: ServicesDep,
    principal: CallerDep,
    offload: OffloadDep,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=512)] = None,
) -> StreamingResponse:
    """Tell visible changes as they happen; `Last-Event-ID` goes on after one, 410 if too old."""
    listen = functools.partial(event_stream.Listener, services.store, principal, last_event_id)
    listener = await offload.run(listen, "lookups")
    seat = services.listeners.take(principal)
    stream = _Stream(
        _lines(services, listener, _Caller(services, request, principal), seat),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    stream.seat = seat
    return stream


@router.get("/audit")
def audit(
    services: ServicesDep,
    principal: CallerDep,
    scope: str | None = None,
    cursor: Annotated[str | None, Query(max_length=512)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """List acts, reads among them, in the scopes that the caller administers; newest first."""
    return event_stream.audit(services.store, principal, scope=scope, cursor=cursor, limit=limit)


class _Stream(StreamingResponse):
    """An answer that gives its seat back however it ends, also before its first line.

    It ends when its client takes nothing for a while: who never reads would keep the seat for ever.
    """

    seat: event_stream.Seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            with anyio.fail_after(_SEND_S):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            _log.info("stream closed: its client does not read")
        finally:
            self.seat.give_back()


class _Caller:
    """Who listens, as long as that is who it was when the stream began."""

    def __init__(self, services: Services, request: Request, principal: Principal) -> None:
        self._authenticator = services.authenticator
        self._bearer = bearer_of(request.headers.get("authorization", ""))
        self._principal = principal
        self._looked_at_s = time.monotonic()

    async def is_gone(self, now_s: float) -> bool:
        """Tell whether the token is none any more, or means somebody else or other rights."""
        if now_s - self._looked_at_s < _ANEW_S:
            return False
        self._looked_at_s = now_s
        try:
            return await self._authenticator.principal(self._bearer) != self._principal
        except ServiceError:
            return True


async def _lines(
    services: Services, listener: event_stream.Listener, caller: _Caller, seat: event_stream.Seat
) -> AsyncIterator[str]:
    yield ": listening\n\n"
    began = told = time.monotonic()
    while (now := time.monotonic()) - began < _LONGEST_S and not services.listeners.is_closing:
        if seat.is_over or await caller.is_gone(now):
            return
        behind = await anyio.to_thread.run_sync(lambda: listener.is_behind)
        for event in await anyio.to_thread.run_sync(listener.next) if behind else ():
            told = now
            yield f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
        if now - told >= _SILENT_S:
            told = now
            yield ": still here\n\n"
        if not behind:
            await anyio.sleep(_LOOK_EVERY_S)
