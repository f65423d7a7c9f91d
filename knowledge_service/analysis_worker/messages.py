"""Messages between the service and the process aside: four bytes that say how long, then that."""

from __future__ import annotations

import socket
import struct

_LENGTH = struct.Struct("<I")
# What is found of the largest body has half of that.
_MAX_BYTES = 64 << 20


def send(to: socket.socket, message: bytes) -> None:
    """Send a message.

    Raises:
        OSError: the other end has gone, or takes too long.
    """
    to.sendall(_LENGTH.pack(len(message)) + message)


def receive(of: socket.socket) -> bytes:
    """Wait for a message.

    Raises:
        OSError: the other end has gone, takes too long, or sends what is no message.
    """
    size = _LENGTH.unpack(_receive_exactly(of, _LENGTH.size))[0]
    if size > _MAX_BYTES:
        raise ConnectionError("the message exceeds the maximum size")
    return _receive_exactly(of, size)


def _receive_exactly(of: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    left = memoryview(data)
    while left:
        size = of.recv_into(left)
        if not size:
            raise ConnectionResetError("the other end has gone")
        left = left[size:]
    return bytes(data)
