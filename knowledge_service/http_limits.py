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
_MAX_CONNECTIONS = 900
# Of one address; a pod's client needs a few. Proxies and port-forwards come from this machine.
_MAX_PER_ADDRESS = 128
# Connections beyond the bound that live until they are told so.
_MAX_REFUSED = 64
# What is no body: a head, the trailers of a body in chunks, extensions of a chunk. A token has a
# few thousand characters. What comes in one piece with a message's begin is not counted.
_MAX_HEAD_BYTES = 64 * 1024
# The largest body there may be takes half of it at 300 kB/s.
_TIMEOUT_S = 60.0


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection that is closed on who sends too much head, or takes too long."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._size = 0
        self._is_receiving = False
        self.idle_since_s = 0.0
        """When a request ended last, or the connection began; by the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        self.idle_since_s = time.monotonic()
        self._timer = self.loop.call_later(_TIMEOUT_S, self.time_out)
        refusal = self._refusal()
        if len(self.connections) > _MAX_CONNECTIONS + _MAX_REFUSED:
            transport.abort()
        elif refusal:
            self.app = _refusal_app(refusal)

    def _refusal(self) -> ServiceError | None:
        """Return why this connection is one too many; makes room where one is idle."""
        if len(self.connections) > _MAX_PER_ADDRESS and self._exceeds_address_limit():
            return QuotaExceeded(
                f"{_MAX_PER_ADDRESS} connections from one address are open; reuse them"
                " for several requests, and close unused ones",
                retry_after_s=2,
            )
        if len(self.connections) <= _MAX_CONNECTIONS:
            return None
        others = [each for each in self.connections if isinstance(each, LimitedHttpProtocol)]
        others.remove(self)
        for each in others:
            if each.transport.is_closing():  # its client does not read what is left for it
                each.transport.abort()
                return None
        idle = [each for each in others if each.is_idle()]
        if not idle:
            return StoreUnavailable(f"all {_MAX_CONNECTIONS} connections are in use; try again")
        min(idle, key=lambda each: each.idle_since_s).time_out()
        return None

    def _exceeds_address_limit(self) -> bool:
        address = self.client[0] if self.client else ""
        if not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return False
        ours = [each.client for each in self.connections if isinstance(each, LimitedHttpProtocol)]
        return [client[0] for client in ours if client].count(address) > _MAX_PER_ADDRESS

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece, unless there is too much of what is no body."""
        self._size += len(data)
        super().data_received(data)
        # Empty lines begin no request; while there is one to answer nobody waits for another.
        if not self._is_receiving and self._is_answering():
            return
        if self._size > _MAX_HEAD_BYTES:
            self._close(b"431 Request Header Fields Too Large")
        elif self._timer is None:
            self._timer = self.loop.call_later(_TIMEOUT_S, self.time_out)

    def on_message_begin(self) -> None:
        """Count anew."""
        self._is_receiving = True
        self._size = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Count anew: how large a body may be is for the application to say."""
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Leave the rest to the application."""
        self._is_receiving = False
        self.idle_since_s = time.monotonic()
        self._cancel_timer()
        super().on_message_complete()

    def is_idle(self) -> bool:
        """Tell whether nothing is being answered; a head that never ends counts as nothing."""
        return not self._is_answering() and not self.transport.is_closing()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def time_out(self) -> None:
        """Close a connection on which no request came."""
        self._timer = None
        self._close(b"408 Request Timeout")

    def _close(self, status: bytes) -> None:
        """Close the connection; said is why unless an answer may be under way."""
        if self.transport.is_closing():
            return
        if not self._is_answering():
            head = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head % status)
        self.transport.close()


def _refusal_app(refusal: ServiceError) -> ASGIApp:
    """Return what answers every request of a connection with one refusal, and hangs up."""
    answer = problems.problem_response(refusal)
    answer.headers["connection"] = "close"
    return answer
