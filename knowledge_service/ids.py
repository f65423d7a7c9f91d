"""Ids of what the service stores: UUIDv7, which sort by the time they were made (RFC 9562)."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime


def random_id() -> str:
    """Return an id without order (UUIDv4), for what is named before it is written."""
    return str(uuid.uuid4())


class IdMaker:
    """Makes UUIDv7s that strictly increase within one maker, also inside one millisecond.

    Not thread-safe: the writer thread owns one.
    """

    def __init__(self) -> None:
        self._last = 0

    def make(self, now: datetime) -> str:
        """Return a new id; `now` gives its first 48 bits unless an earlier id is already ahead."""
        millis = int(now.timestamp() * 1000)
        # 74 bits after the time: a random start within each millisecond, then counted up.
        value = self._last + 1
        if millis > self._last >> 74:
            value = (millis << 74) | secrets.randbits(73)
        self._last = value
        millis, tail = value >> 74, value & ((1 << 74) - 1)
        number = (millis << 80) | (7 << 76) | ((tail >> 62) << 64) | (2 << 62)
        text = f"{number | (tail & ((1 << 62) - 1)):032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
