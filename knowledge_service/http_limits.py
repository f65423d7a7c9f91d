"""Limits of connections: their number, size of the head, one minute per request, unread responses.

uvicorn limits none of these. It would buffer an endless head, and parse it again with each chunk,
before the caller is authenticated. A client that never starts or completes a request would keep its
connection. If all connections are in use, a new one replaces the one that has been idle longest; if
none is idle, its requests get 503. A response is in memory until its client has read it, so a
client that stops reading loses the connection.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import logging
import struct
import termios
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from knowledge_service.errors import QuotaExceeded, ServiceError, StoreUnavailable
from knowledge_service.routes import problems

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

# With refused ones, and some 45 files and connections of the service, these leave 100 of the usual
# 1,024 file descriptors for a restart of the search process, exports and calls of other services.
_MAX_CONNECTIONS = 800
# The limit of one address. A pod needs a few; proxies and port-forwards share the loopback address.
_MAX_PER_ADDRESS = 128
# Connections above the limit that stay open until their refusal is sent.
_MAX_REFUSED = 64
# Everything except the body: the head, trailers, and chunk extensions. A token has a few thousand
# characters. Bytes in the same packet as the start of a message are not counted.
_MAX_HEAD_BYTES = 64 * 1024
# The largest body takes half of this time at 300 kB/s.
_TIMEOUT_S = 60.0
# A client that reads less than this in that time has stopped reading its response.
_MIN_READ_BYTES, _UNREAD_S = 64 * 1024, 20.0
# What all clients together have not read; the largest page of facts has 31 MB.
_MAX_UNREAD_BYTES = 192 * 1024 * 1024
_log = logging.getLogger(__name__)


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection that is closed if the head is too large or the request takes too long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._size = 0
        self._is_receiving = False
        self.idle_since_s = 0.0
        """When the last request ended, or the connection was opened; on the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._unread_since_s = 0.0
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        self.idle_since_s = time.monotonic()
        self._timer = self.loop.call_later(_TIMEOUT_S, self.time_out)
        refusal = self._refusal()
        if len(self.connections) > _MAX_CONNECTIONS + _MAX_REFUSED:
            transport.abort()
        elif refusal:
            self.app = _refusal_app(refusal)

    def _refusal(self) -> ServiceError | None:
        """Return why this connection exceeds a limit; closes an idle one to make room."""
        if len(self.connections) > _MAX_PER_ADDRESS and self._exceeds_address_limit():
            return QuotaExceeded(
                f"{_MAX_PER_ADDRESS} connections from one address are open; reuse them"
                " for several requests, and close unused ones",
                retry_after_s=2,
            )
        if len(self.connections) <= _MAX_CONNECTIONS:
            return None
        other_connections = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedHttpProtocol)
        ]
        other_connections.remove(self)
        for connection in other_connections:
            if connection.transport.is_closing():  # its client does not read the rest
                connection.transport.abort()
                return None
        idle = [connection for connection in other_connections if connection.is_idle()]
        if not idle:
            return StoreUnavailable(f"all {_MAX_CONNECTIONS} connections are in use; try again")
        min(idle, key=lambda connection: connection.idle_since_s).time_out()
        return None

    def _exceeds_address_limit(self) -> bool:
        address = self.address
        if not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return False
        clients = [
            connection.client
            for connection in self.connections
            if isinstance(connection, LimitedHttpProtocol)
        ]
        return [client[0] for client in clients if client].count(address) > _MAX_PER_ADDRESS

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._cancel_timer()
        self._cancel_unread_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to watch whether the client reads its response, of which some is in memory."""
        super().pause_writing()
        self._unread_since_s = time.monotonic()
        self._watch_reading()
        self._drop_unread_responses()

    def resume_writing(self) -> None:
        """Stop watching: the client has read nearly all."""
        self._cancel_unread_timer()
        super().resume_writing()

    def _watch_reading(self) -> None:
        self._cancel_unread_timer()
        self._unread_bytes = self._unacknowledged_bytes()
        self._unread_timer = self.loop.call_later(_UNREAD_S, self._check_reading)

    def _check_reading(self) -> None:
        if self._unread_bytes - self._unacknowledged_bytes() < _MIN_READ_BYTES:
            self._drop("its client does not read the response")
        else:
            self._watch_reading()

    def _unacknowledged_bytes(self) -> int:
        """Return the bytes of the response that the client has not acknowledged.

        The kernel holds up to 4 MB of them and takes more only when a third of it is free, so the
        part in the service's memory stays the same for long while a client reads slowly.
        """
        size = self.transport.get_write_buffer_size()
        connection: socket.socket = self.transport.get_extra_info("socket")
        try:
            queued: bytes = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # only Linux says it
            return size
        return size + int(struct.unpack("i", queued)[0])

    def _drop_unread_responses(self) -> None:
        """Keep the limit of unread bytes: drop other responses, of the address with the most."""
        unread = {
            connection: connection.transport.get_write_buffer_size()
            for connection in self.connections
            if isinstance(connection, LimitedHttpProtocol) and connection.is_unread
        }
        own_bytes = unread.pop(self, 0)
        while unread and own_bytes + sum(unread.values()) > _MAX_UNREAD_BYTES:
            by_address: Counter[str] = Counter()
            for connection, size in unread.items():
                by_address[connection.address] += size
            largest = by_address.most_common(1)[0][0]
            oldest = min(
                (connection for connection in unread if connection.address == largest),
                key=lambda connection: connection._unread_since_s,  # noqa: SLF001 - same class
            )
            del unread[oldest]
            oldest._drop("clients have not read too many bytes of responses")  # noqa: SLF001

    def _drop(self, reason: str) -> None:
        size = self.transport.get_write_buffer_size()
        fields = {"why": reason, "client": self.address, "unread_bytes": size}
        _log.warning("connection closed", extra={"fields": fields})
        self._cancel_unread_timer()
        self.transport.abort()

    @property
    def is_unread(self) -> bool:
        """Return whether a part of a response waits in memory for its client."""
        return self._unread_timer is not None

    @property
    def address(self) -> str:
        """Return the address of the client, empty if it has none."""
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        """Receive a chunk, unless the head exceeds its limit."""
        self._size += len(data)
        super().data_received(data)
        # Empty lines start no request. No timer runs while a request is being answered.
        if not self._is_receiving and self._is_answering():
            return
        if self._size > _MAX_HEAD_BYTES:
            self._close(b"431 Request Header Fields Too Large")
        elif self._timer is None:
            self._timer = self.loop.call_later(_TIMEOUT_S, self.time_out)

    def on_message_begin(self) -> None:
        """Restart the count."""
        self._is_receiving = True
        self._size = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Restart the count: the application limits the body."""
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer: the application answers."""
        self._is_receiving = False
        self.idle_since_s = time.monotonic()
        self._cancel_timer()
        super().on_message_complete()

    def is_idle(self) -> bool:
        """Return whether no request is being answered; an endless head counts as none."""
        return not self._is_answering() and not self.transport.is_closing()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _cancel_unread_timer(self) -> None:
        if self._unread_timer:
            self._unread_timer.cancel()
            self._unread_timer = None

    def time_out(self) -> None:
        """Close a connection that sent no whole request in time."""
        self._timer = None
        self._close(b"408 Request Timeout")

    def _close(self, status: bytes) -> None:
        """Close the connection, with a status unless a response may have started."""
        if self.transport.is_closing():
            return
        if not self._is_answering():
            head = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head % status)
        self.transport.close()


def _refusal_app(refusal: ServiceError) -> ASGIApp:
    """Return an app that answers every request with one refusal and closes the connection."""
    answer = problems.problem_response(refusal)
    answer.headers["connection"] = "close"

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        problems.log_refusal(scope["path"], refusal)
        await answer(scope, receive, send)

    return refuse
