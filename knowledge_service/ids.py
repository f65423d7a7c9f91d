"""Ids of what the service stores: UUIDv7, which sort by the time they were made (RFC 9562)."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime


def random_id() -> str:
    """Return an id without order (UUIDv4), for what is named before it is written."""
    return str(uuid.uuid4())


_VARIANT, _TAIL = 1 << 63, (1 << 62) - 1


class IdMaker:
    """Makes UUIDv7s that strictly increase within one maker, also inside one millisecond.

    Not thread-safe: the writer thread owns one.
    """

    def __init__(self) -> None:
        self._last = 0
        self._now: datetime | None = None
        self._start = 0

    def make(self, now: datetime) -> str:
        """Return a new id; `now` gives its first 48 bits unless an earlier id is already ahead."""
        if now is not self._now:  # one write makes many
            self._now, self._start = now, int(now.timestamp() * 1000) << 74
        # 74 bits after the time: a random start within each millisecond, then counted up.
        value = self._last + 1
        if self._start > self._last:
            value = self._start | secrets.randbits(73)
        self._last = value
        high = (value >> 74 << 16) | 0x7000 | (value >> 62 & 0xFFF)
        text = f"{high:016x}{_VARIANT | (value & _TAIL):016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
