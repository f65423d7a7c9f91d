"""The reads that run now, so that an erasure can wait until what they have read is delivered."""

from __future__ import annotations

import itertools
import threading
import time


class OpenReads:
    """Numbers the reads that run, for one waiting erasure or several. Used by several threads."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._begin_s: dict[int, float] = {}
        self._read_ended = threading.Condition()
        self.waiting = 0
        """How many erasures wait now."""

    def begin(self) -> int:
        """Return the number of a read that begins now; call `end` with it."""
        number = next(self._numbers)
        self._begin_s[number] = time.monotonic()
        return number

    def end(self, number: int) -> None:
        """End a read: its result is delivered."""
        del self._begin_s[number]
        if self.waiting:
            with self._read_ended:
                self._read_ended.notify_all()

    def oldest(self) -> tuple[int, float] | None:
        """Return the number of the oldest read, and the time of `time.monotonic` when it began."""
        return min(self._begin_s.copy().items(), default=None)

    def wait(self, within_s: float) -> None:
        """Wait until all reads that run now have ended, at most for some seconds."""
        with self._read_ended:
            # Before the reads are listed, so that each that ends after it notifies.
            self.waiting += 1
            open_now = set(self._begin_s.copy())
            self._read_ended.wait_for(lambda: open_now.isdisjoint(self._begin_s.copy()), within_s)
            self.waiting -= 1


class OpenRead:
    """A read that may begin, and ends at most once."""

    __slots__ = ("_number", "_reads")

    def __init__(self, reads: OpenReads) -> None:
        self._reads = reads
        self._number: int | None = None

    def begin(self) -> None:
        """Begin the read."""
        self._number = self._reads.begin()

    def end(self) -> None:
        """End the read if it has begun."""
        if self._number is not None:
            self._reads.end(self._number)
            self._number = None
