"""Messages between the service and the processes that it starts: a length, then the content."""

from __future__ import annotations

import select
import socket
import struct
import time
from contextlib import suppress

_LENGTH = struct.Struct("<I")
# The analysis of the largest batch takes half of it.
_MAX_BYTES = 64 << 20
# The results of most searches are smaller.
_RECEIVE_BYTES = 64 << 10


def send(to: socket.socket, message: bytes) -> None:
    """Send a message.

    Raises:
        OSError: the peer closed the connection, or takes too long.
    """
    to.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket) -> bytes:
    """Wait for a message.

    Raises:
        OSError: the peer closed the connection, takes too long, or sends no valid message.
    """
    size = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))[0]
    if size > _MAX_BYTES:
        raise ConnectionError("the message exceeds the maximum size")
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    remaining = memoryview(data)
    while remaining:
        size = connection.recv_into(remaining)
        if not size:
            raise ConnectionResetError("the peer closed the connection")
        remaining = remaining[size:]
    return bytes(data)


class Connection:
    """Exchanges messages over a blocking socket until a deadline, a time of `time.monotonic`.

    A message of which only a part came in time is completed by the next `receive`.
    """

    def __init__(self, endpoint: socket.socket) -> None:
        self._socket = endpoint
        self._received = bytearray()
        self._unsent = memoryview(b"")

    def send(self, message: bytes, ends_at_s: float | None = None) -> None:
        """Send a message.

        Raises:
            TimeoutError: the deadline has passed; what was sent may be a part of the message.
            OSError: the peer closed the connection.
        """
        data = _LENGTH.pack(len(message)) + message
        if ends_at_s is None:
            self._socket.sendall(data)
            return
        remaining = memoryview(data)
        while remaining:
            try:
                remaining = remaining[self._socket.send(remaining, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, ends_at_s)

    def begin_send(self, message: bytes) -> None:
        """Send as much of a message as the peer has room for; `continue_send` sends the rest.

        Raises:
            OSError: the peer closed the connection.
        """
        self._unsent = memoryview(_LENGTH.pack(len(message)) + message)
        self.continue_send()

    def continue_send(self) -> None:
        """Send what `begin_send` left, as far as the peer has room for it.

        Raises:
            OSError: the peer closed the connection.
        """
        with suppress(BlockingIOError):
            while self._unsent:
                sent_bytes = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
                self._unsent = self._unsent[sent_bytes:]

    @property
    def has_unsent(self) -> bool:
        """Return whether a part of a message waits for room."""
        return bool(self._unsent)

    def receive(self, ends_at_s: float | None = None) -> bytes | memoryview:
        """Wait for a message.

        Raises:
            TimeoutError: the deadline has passed.
            OSError: the peer closed the connection, or sends no valid message.
        """
        message: bytes | memoryview | None = self._next_message()
        while message is None:
            if ends_at_s is not None:
                self._wait(select.POLLIN, ends_at_s)
            message = self._read()
        return message

    def receive_available(self) -> bytes | memoryview | None:
        """Return a message without waiting for it; None while some of it has not arrived.

        Raises:
            OSError: the peer closed the connection, or sends no valid message.
        """
        message = self._next_message()
        try:
            return self._read(socket.MSG_DONTWAIT) if message is None else message
        except BlockingIOError:
            return None

    @property
    def has_received(self) -> bool:
        """Return whether more has arrived than the messages that `receive` returned."""
        return bool(self._received)

    def shut_down(self) -> None:
        """Fail what waits for a message, and all that follows, also in other threads."""
        with suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the file descriptor; no thread may use the connection."""
        self._socket.close()

    def _read(self, flags: int = 0) -> bytes | memoryview | None:
        data = self._socket.recv(_RECEIVE_BYTES, flags)
        if not data:
            raise ConnectionResetError("the peer closed the connection")
        if not self._received and len(data) == _LENGTH.size + _message_size(data):
            return memoryview(data)[_LENGTH.size :]
        self._received += data
        return self._next_message()

    def _next_message(self) -> bytes | None:
        end = _LENGTH.size + _message_size(self._received)
        if len(self._received) < end:
            return None
        message = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return message

    def _wait(self, event: int, ends_at_s: float) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        if not poll.poll(max(0.0, ends_at_s - time.monotonic()) * 1000):
            raise TimeoutError("the peer takes too long")


def _message_size(data: bytes | bytearray) -> int:
    """Return the size of the message that begins here; 0 while its length is incomplete.

    Raises:
        ConnectionError: it exceeds the maximum size.
    """
    if len(data) < _LENGTH.size:
        return 0
    size: int = _LENGTH.unpack_from(data)[0]
    if size > _MAX_BYTES:
        raise ConnectionError("the message exceeds the maximum size")
    return size
