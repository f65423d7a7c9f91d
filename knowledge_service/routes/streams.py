"""What streams of events have in common: how they wait for events, and what ends them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread
from starlette.types import Message, Send

from knowledge_client.models import Event
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import ServiceError
from knowledge_service.use_cases import event_stream
from knowledge_service.use_cases.services import Services

# The delay of an event at most; reading the end of the log takes some microseconds.
_POLL_INTERVAL_S = 0.25
# How often the token of a stream is checked again: a revoked one ends its stream.
_REAUTHENTICATION_S = 10.0

# A client that accepts no data for this long has stopped reading.
_SEND_TIMEOUT_S = 20.0

_log = logging.getLogger(__name__)


class _UnreadStream(Exception):
    """The client of a stream accepts no data."""


@contextmanager
def closed_when_unread(send: Send) -> Iterator[Send]:
    """Yield `send` with a time limit; a client that stops reading ends the block and the response.

    Without the limit, such a client would keep its subscription.
    """

    async def send_in_time(message: Message) -> None:
        try:
            with anyio.fail_after(_SEND_TIMEOUT_S):
                await send(message)
        except TimeoutError as exc:
            raise _UnreadStream from exc

    try:
        yield send_in_time
    except* _UnreadStream:
        _log.info("stream closed: its client does not read")


class CallerGuard:
    """Checks that the token of a stream still belongs to the same principal."""

    def __init__(
        self,
        services: Services,
        bearer: str | None,
        principal: Principal,
        speak_as: Callable[[Principal], Principal],
    ) -> None:
        """Guard a stream of `principal`, which `speak_as` derives from that of the token."""
        self._authenticator = services.authenticator
        self._bearer = bearer
        self._speak_as = speak_as
        self._principal = principal
        self._checked_at_s = time.monotonic()

    async def has_changed(self, now_s: float) -> bool:
        """Return whether the token is now invalid, or identifies a caller with other rights."""
        if now_s - self._checked_at_s < _REAUTHENTICATION_S:
            return False
        self._checked_at_s = now_s
        try:
            principal = await self._authenticator.principal(self._bearer)
            return self._speak_as(principal) != self._principal
        except ServiceError:
            return True


@dataclass(frozen=True)
class EventFeed:
    """The events of one stream."""

    services: Services
    reader: event_stream.EventReader
    guard: CallerGuard
    subscription: event_stream.Subscription
    max_s: float

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Yield the events since the last batch, which may be none, until the stream has to end."""
        started_at_s = time.monotonic()
        limiter = self.services.subscription_limiter
        while (now_s := time.monotonic()) - started_at_s < self.max_s and not limiter.is_closing:
            if self.subscription.is_over or await self.guard.has_changed(now_s):
                return
            is_behind = await anyio.to_thread.run_sync(lambda: self.reader.is_behind)
            yield await anyio.to_thread.run_sync(self.reader.read) if is_behind else ()
            if not is_behind:
                await anyio.sleep(_POLL_INTERVAL_S)
