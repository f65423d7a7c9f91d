"""The reads that run now, so that an erasure can wait until what they have read is delivered.

Writes count as reads, because most return facts.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Mapping
from contextlib import suppress


class _Numbered:
    """What has begun and not ended yet: its number, and when it began, by `time.monotonic`."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._begin_s: dict[int, float] = {}

    def begin(self) -> int:
        """Return the number of what begins now; call `end` with it."""
        number = next(self._numbers)
        self._begin_s[number] = time.monotonic()
        return number


class OpenSearches(_Numbered):
    """Numbers the searches that run in another process. Used by several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._search_ended = threading.Condition()
        self.waiting = 0
        """How many erasures wait now."""

    def end(self, number: int) -> None:
        """End a search: its result is delivered."""
        del self._begin_s[number]
        if self.waiting:
            with self._search_ended:
                self._search_ended.notify_all()

    def oldest(self) -> tuple[int, float] | None:
        """Return the number of the oldest search, and when it began, by `time.monotonic`."""
        return min(self._begin_s.copy().items(), default=None)

    def wait(self, erased_at_s: float, ends_at_s: float) -> None:
        """Wait until all searches that began before an erasure have ended, until a deadline."""
        with self._search_ended:
            # Before the searches are listed, so that each that ends after it notifies.
            self.waiting += 1
            earlier = begun_before(erased_at_s, self._begin_s.copy())
            within_s = max(0.0, ends_at_s - time.monotonic())
            self._search_ended.wait_for(lambda: earlier.isdisjoint(self._begin_s.copy()), within_s)
            self.waiting -= 1


class OpenReads(_Numbered):
    """The reads whose response is not sent yet. Use it from one event loop only."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[set[int], asyncio.Future[None]]] = []

    def end(self, number: int) -> None:
        """End a read: its response is sent."""
        del self._begin_s[number]
        for earlier, have_ended in self._waiting:
            earlier.discard(number)
            if not earlier and not have_ended.done():
                have_ended.set_result(None)

    async def wait(self, erased_at_s: float, within_s: float) -> int:
        """Wait until all reads that began before an erasure have ended, at most for some seconds.

        Return how many have not ended. A read that begins later cannot have the text, so it does
        not count.
        """
        earlier = begun_before(erased_at_s, self._begin_s)
        if not earlier:
            return 0
        wait = (earlier, asyncio.get_running_loop().create_future())
        self._waiting.append(wait)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(wait[1], within_s)
        finally:
            self._waiting.remove(wait)
        return len(earlier)


class OpenRead:
    """A read that may begin, and ends at most once."""

    __slots__ = ("_has_ended", "_number", "_reads")

    def __init__(self, reads: OpenReads) -> None:
        self._reads = reads
        self._number: int | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Begin the read, unless it has begun, or its client has left."""
        if self._number is None and not self._has_ended:
            self._number = self._reads.begin()

    def end(self) -> None:
        """End the read, whether it has begun or not."""
        self._has_ended = True
        if self._number is not None:
            self._reads.end(self._number)
            self._number = None


def begun_before(erased_at_s: float, begin_s: Mapping[int, float]) -> set[int]:
    """Return the numbers of the reads that began before an erasure, by `time.monotonic`."""
    return {number for number, at_s in begin_s.items() if at_s <= erased_at_s}
