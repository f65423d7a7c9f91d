"""Ends an HTTP call at a time, whatever its connection does.

The timeouts of httpx bound each operation on a socket. A server that sends single bytes, of headers
too, never exceeds them. A timer therefore shuts the socket down, and the blocked operation fails.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

_CONNECTED = "connection.connect_tcp.complete"


class CallDeadline:
    """Shuts down the connection that a call opens, `seconds` after the block began.

    `trace` is the extension `trace` of the request. The connection must be new: no event names the
    socket of a connection that is used again.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep a duplicate of a new socket, which stays valid when TLS wraps the socket."""
        if event != _CONNECTED:
            return
        duplicate = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            self._sockets.append(duplicate)
            if self.is_over:
                _shut_down(duplicate)

    def _expire(self) -> None:
        with self._lock:
            self.is_over = True
            for each in self._sockets:
                _shut_down(each)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # the server has closed the connection already
        connection.shutdown(socket.SHUT_RDWR)
