"""The stream of changes as server-sent events, and the audit."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from knowledge_client.models import AuditPage
from knowledge_service.flows import listening
from knowledge_service.routes.bodies import StrictRoute
from knowledge_service.routes.dependencies import CallerDep, Services, ServicesDep

# A change is told within this; one look at the end of the log takes some microseconds.
_LOOK_EVERY_S = 0.25
_SILENT_S = 15.0
# A stream ends now and then, so that a caller whose rights changed is looked at anew.
_LONGEST_S = 300.0

_STREAM = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}

router = APIRouter(prefix="/v1", tags=["events"], route_class=StrictRoute)


@router.get("/events", response_class=StreamingResponse, responses={200: _STREAM})
async def events(
    services: ServicesDep,
    principal: CallerDep,
    last_event_id: Annotated[str | None, Header(max_length=512)] = None,
) -> StreamingResponse:
    """Tell visible changes as they happen; `Last-Event-ID` goes on after one, 410 if too old."""
    listener = await anyio.to_thread.run_sync(
        listening.Listener, services.store, principal, last_event_id
    )
    stream = _Stream(
        _lines(services, listener),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    stream.seat = services.listeners.take(principal)
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
    return listening.audit(services.store, principal, scope=scope, cursor=cursor, limit=limit)


class _Stream(StreamingResponse):
    """An answer that gives its seat back however it ends, also before its first line."""

    seat: listening.Seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.seat.give_back()


async def _lines(services: Services, listener: listening.Listener) -> AsyncIterator[str]:
    yield ": listening\n\n"
    began = told = time.monotonic()
    while (now := time.monotonic()) - began < _LONGEST_S and not services.listeners.is_closing:
        behind = await anyio.to_thread.run_sync(lambda: listener.is_behind)
        for event in await anyio.to_thread.run_sync(listener.next) if behind else ():
            told = now
            yield f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
        if now - told >= _SILENT_S:
            told = now
            yield ": still here\n\n"
        if not behind:
            await anyio.sleep(_LOOK_EVERY_S)
