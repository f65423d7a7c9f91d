"""The event stream as server-sent events, and the audit log."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import StringConstraints
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from knowledge_client import base_model
from knowledge_client.models import AuditPage
from knowledge_service.routes import streams
from knowledge_service.routes.dependencies import (
    CallerDep,
    OffloadDep,
    ServicesDep,
    bearer_token_of,
    speaking_as,
)
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.routes.streams import CallerGuard, EventFeed
from knowledge_service.use_cases import event_stream

_KEEPALIVE_S = 15.0
# An arbitrary number; clients reconnect with the id of the last event.
_MAX_STREAM_S = 300.0

# An asterisk may only stand for the rest of a topic.
_Topic = Annotated[str, StringConstraints(pattern=r"^[^*]+(\.\*)?$", max_length=192)]
_Topics = Annotated[list[_Topic], Query(max_length=16)]

_EVENT_STREAM_RESPONSE = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}

router = APIRouter(prefix="/v1", tags=["events"], route_class=Endpoint)


@router.get("/events", response_class=StreamingResponse, responses={200: _EVENT_STREAM_RESPONSE})
async def events(
    request: Request,
    services: ServicesDep,
    principal: CallerDep,
    offload: OffloadDep,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=512)] = None,
    topic: _Topics = [],  # noqa: B006 - FastAPI copies it
) -> StreamingResponse:
    """Stream visible changes; `Last-Event-ID` resumes after an event, 410 when it is too old.

    `topic` may be repeated. It follows a topic and all topics below it: `fact.recorded` also
    follows `fact.recorded.entity`, and `block` or `block.*` follows every change of blocks.
    """
    open_reader = functools.partial(
        event_stream.EventReader, services.store, principal, last_event_id, topic
    )
    reader = await offload.run(open_reader, "lookups")
    subscription = services.subscription_limiter.subscribe(principal)
    guard = CallerGuard(
        services,
        bearer_token_of(request.headers.get("authorization", "")),
        principal,
        lambda current: speaking_as(current, request.headers.get(base_model.SPEAK_AS_HEADER)),
    )
    stream = _EventStream(
        _event_lines(EventFeed(services, reader, guard, subscription, _MAX_STREAM_S)),
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
    """A response that releases its subscription however it ends, even before its first line."""

    subscription: event_stream.Subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with streams.closed_when_unread(send) as send_in_time:
                await super().__call__(scope, receive, send_in_time)
        finally:
            self.subscription.release()


async def _event_lines(feed: EventFeed) -> AsyncIterator[str]:
    yield ": listening\n\n"
    sent_at_s = time.monotonic()
    async for batch in feed.batches():
        now_s = time.monotonic()
        for event in batch:
            sent_at_s = now_s
            yield f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
        if now_s - sent_at_s >= _KEEPALIVE_S:
            sent_at_s = now_s
            yield ": still here\n\n"
