"""Messages between the service and the processes that it starts: a length, then the content."""

from __future__ import annotations

import socket
import struct

_LENGTH = struct.Struct("<I")
# The analysis of the largest batch takes half of it.
_MAX_BYTES = 64 << 20


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
