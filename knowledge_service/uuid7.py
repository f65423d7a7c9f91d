"""UUIDv7 ids (RFC 9562), which sort by their time of creation."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime


def provisional_id(now: datetime) -> str:
    """Return an id for a row that needs one before it is written: the time, then random bits.

    Rows of about the same time are therefore stored next to each other. These ids need not
    increase.
    """
    chance = secrets.randbits(74)
    high = int(now.timestamp() * 1000) << 16 | 0x7000 | chance >> 62
    return str(uuid.UUID(int=high << 64 | _VARIANT | chance & _TAIL))


_VARIANT, _TAIL = 1 << 63, (1 << 62) - 1


class Uuid7Generator:
    """Generates UUIDv7s that strictly increase, also within one millisecond.

    They follow `last_id`, the last id of an earlier generator: after the clock was set back, ids of
    one millisecond are generated over many restarts.

    Not thread-safe: the writer thread owns the generator.
    """

    def __init__(self, last_id: str | None = None) -> None:
        self._last = 0 if last_id is None else _value(last_id)
        self._now: datetime | None = None
        self._start = 0

    def generate(self, now: datetime) -> str:
        """Return a new id; `now` gives its first 48 bits unless an earlier id is ahead of it."""
        return _text(self._next(now, 1))

    def generate_batch(self, now: datetime, count: int) -> list[str]:
        """Return `count` consecutive ids; only the step to the first is random."""
        first = self._next(now, count)
        head, tail = _text(first)[:-_DIGITS], first & _LAST_DIGITS
        if tail + count > _LAST_DIGITS:
            return [_text(value) for value in range(first, first + count)]
        return [f"{head}{value:012x}" for value in range(tail, tail + count)]

    def _next(self, now: datetime, count: int) -> int:
        """Reserve `count` consecutive numbers; return the first."""
        if now is not self._now:  # one write generates many ids
            self._now, self._start = now, int(now.timestamp() * 1000) << 74
        # 74 bits after the time, RFC 9562 section 6.2, method 2: a random start within each
        # millisecond, then random steps. The difference of two ids does not reveal the number
        # of ids between them; some 2^42 steps fit into a millisecond.
        value = self._last + 1 + secrets.randbits(_STEP_BITS)
        if self._start > self._last:
            value = self._start | secrets.randbits(73)
        self._last = value + count - 1
        return value


_STEP_BITS = 32
_DIGITS = 12  # the last group of an id
_LAST_DIGITS = (1 << 4 * _DIGITS) - 1


def id_range(moment: datetime) -> tuple[str, str]:
    """Return two texts between which all ids of a moment are, and those of a millisecond before.

    The time of an id is rounded down, and a float may be a little too small.
    """
    milliseconds = int(moment.timestamp() * 1000)
    first, last = f"{milliseconds - 1:012x}", f"{milliseconds + 1:012x}"
    return f"{first[:8]}-{first[8:]}-7", f"{last[:8]}-{last[8:]}-8"


def _value(text: str) -> int:
    """Return the number of which `_text` made an id."""
    number = uuid.UUID(text).int
    return number >> 80 << 74 | (number >> 64 & 0xFFF) << 62 | number & _TAIL


def _text(value: int) -> str:
    high = (value >> 74 << 16) | 0x7000 | (value >> 62 & 0xFFF)
    text = f"{high:016x}{_VARIANT | (value & _TAIL):016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
