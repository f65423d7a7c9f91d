"""Limits of incoming requests: connections, size of the head, one minute per request.

The server's library limits none of these. An endless head would be buffered, and parsed again with
each chunk, before the caller is authenticated; a client that never completes or never begins a
request would keep its connection. When all connections are taken a new one takes the
place of the one that has been idle longest; where none is idle its requests get 503.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from knowledge_service.errors import QuotaExceeded, ServiceError, StoreUnavailable
from knowledge_service.routes import problems

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# With files and readers fewer than the 1,024 descriptors that a process may have by default.
_CONNECTIONS = 900
# Of one address; a pod's client needs a few. Proxies and port-forwards come from this machine.
_OF_ONE_ADDRESS = 128
# Connections beyond the bound that live until they are told so.
_REFUSED = 64
# What is no body: a head, the trailers of a body in chunks, extensions of a chunk. A token has a
# few thousand characters. What comes in one piece with a message's begin is not counted.
_MOST = 64 * 1024
# The largest body there may be takes half of it at 300 kB/s.
_WITHIN_S = 60.0


class Arriving(HttpToolsProtocol):
    """A connection that is closed on who sends too much head, or takes too long."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._size = 0
        self._is_arriving = False
        self.idle_since_s = 0.0
        """When a request ended last, or the connection began; by the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        self.idle_since_s = time.monotonic()
        self._timer = self.loop.call_later(_WITHIN_S, self.end_late)
        refusal = self._refusal()
        if len(self.connections) > _CONNECTIONS + _REFUSED:
            transport.abort()
        elif refusal:
            self.app = _refusing(refusal)

    def _refusal(self) -> ServiceError | None:
        """Return why this connection is one too many; makes room where one is idle."""
        if len(self.connections) > _OF_ONE_ADDRESS and self._is_one_too_many():
            return QuotaExceeded(
                f"{_OF_ONE_ADDRESS} connections from one address are open; reuse them"
                " for several requests, and close unused ones",
                retry_after_s=2,
            )
        if len(self.connections) <= _CONNECTIONS:
            return None
        others = [each for each in self.connections if isinstance(each, Arriving)]
        others.remove(self)
        for each in others:
            if each.transport.is_closing():  # its client does not read what is left for it
                each.transport.abort()
                return None
        idle = [each for each in others if each.is_idle()]
        if not idle:
            return StoreUnavailable(f"all {_CONNECTIONS} connections are in use; try again")
        min(idle, key=lambda each: each.idle_since_s).end_late()
        return None

    def _is_one_too_many(self) -> bool:
        address = self.client[0] if self.client else ""
        if not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return False
        ours = [each.client for each in self.connections if isinstance(each, Arriving)]
        return [client[0] for client in ours if client].count(address) > _OF_ONE_ADDRESS

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece, unless there is too much of what is no body."""
        self._size += len(data)
        super().data_received(data)
        # Empty lines begin no request; while there is one to answer nobody waits for another.
        if not self._is_arriving and self._is_answering():
            return
        if self._size > _MOST:
            self._end(b"431 Request Header Fields Too Large")
        elif self._timer is None:
            self._timer = self.loop.call_later(_WITHIN_S, self.end_late)

    def on_message_begin(self) -> None:
        """Count anew."""
        self._is_arriving = True
        self._size = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Count anew: how large a body may be is for the application to say."""
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Leave the rest to the application."""
        self._is_arriving = False
        self.idle_since_s = time.monotonic()
        self._wait_no_longer()
        super().on_message_complete()

    def is_idle(self) -> bool:
        """Tell whether nothing is being answered; a head that never ends counts as nothing."""
        return not self._is_answering() and not self.transport.is_closing()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_no_longer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def end_late(self) -> None:
        """Close a connection on which no request came."""
        self._timer = None
        self._end(b"408 Request Timeout")

    def _end(self, status: bytes) -> None:
        """Close the connection; said is why unless an answer may be under way."""
        if self.transport.is_closing():
            return
        if not self._is_answering():
            head = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head % status)
        self.transport.close()


def _refusing(refusal: ServiceError) -> ASGIApp:
    """Return what answers every request of a connection with one refusal, and hangs up."""
    answer = problems.problem_response(refusal)
    answer.headers["connection"] = "close"
    return answer
