"""How a request may arrive: with a head of bounded size, and whole within a minute.

The server's library bounds neither. A head without an end would be kept, and looked through anew
with each piece of it, before anybody was asked who he is; and who never ends a request, or never
begins one, would keep the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

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
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(_WITHIN_S, self._end_late)

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
            self._timer = self.loop.call_later(_WITHIN_S, self._end_late)

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
        self._wait_no_longer()
        super().on_message_complete()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_no_longer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _end_late(self) -> None:
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
