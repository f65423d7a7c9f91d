"""Length-prefixed messages: four bytes of length in network order, then the payload."""

from __future__ import annotations

import struct
from typing import IO

_HEADER = struct.Struct(">I")
HEADER_BYTES = _HEADER.size
MAX_BYTES = 64 * 2**20
"""The limit of a worker's answer; the limits of outputs and expanded files are far below."""


class BadFrame(Exception):
    """The peer did not send exactly one message within the limit."""


class TooLong(BadFrame):
    """The message is longer than the limit; only its length was read.

    Attributes:
        size: The length of the message, in bytes.
    """

    def __init__(self, size: int, *, max_bytes: int) -> None:
        super().__init__(f"a message of {size} bytes is longer than {max_bytes}")
        self.size = size


def frame(payload: bytes) -> bytes:
    """Prefix a payload with its length."""
    return _HEADER.pack(len(payload)) + payload


def payload_bytes(message: bytes | bytearray) -> int:
    """Return the length of the payload from the start of a message."""
    (size,) = _HEADER.unpack_from(message)
    return int(size)


def read_blocking(stream: IO[bytes]) -> bytes | None:
    """Read one message from a pipe to a trusted process; None at the end of the pipe."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    (size,) = _HEADER.unpack(header)
    return stream.read(size)
