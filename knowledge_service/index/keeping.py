"""What was decoded of the index, kept in memory up to a number of bytes, the last used longest.

Rows of the index are added and joined, and what a kept thing says of the first so many documents of
a scope stays true; only erasing changes it. `Keeping` therefore has an edition that changes with
each erasure, and hands what it keeps only to a snapshot that lies wholly within an edition.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

# What one thing costs beside its arrays: their heads, the key, the places in a table.
_OVERHEAD = 900


class Kept:
    """Things by key. Used by several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._things: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Return what is kept now, in bytes."""
        return self._bytes

    def get(self, key: Hashable) -> Any:
        """Return what is kept under a key, or None."""
        return self.get_all((key,))[0]

    def get_all(self, keys: Sequence[Hashable]) -> list[Any]:
        """Return what is kept under each key, or None."""
        found = []
        with self._lock:
            for key in keys:
                thing = self._things.get(key)
                if thing is not None:
                    self._things.move_to_end(key)
                found.append(thing[0] if thing else None)
        return found

    def put(self, key: Hashable, thing: Any, size_bytes: int) -> None:
        """Keep a thing, in the place of what was there; what is too large by itself is not kept."""
        size = size_bytes + _OVERHEAD
        with self._lock:
            self._bytes -= self._things.pop(key, (None, 0))[1]
            if size <= self._most:
                self._things[key] = thing, size
                self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._things.popitem(last=False)[1][1]


class Keeping:
    """The kept things of the newest edition."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._edition = 0
        self._kept = Kept(most_bytes)
        self._lock = threading.Lock()

    def between(self, before: int, after: int) -> Kept:
        """Return what a snapshot may use, by the editions read before and after it was begun.

        An odd edition is one in which something is being erased. What cannot be shared is forgotten
        with the snapshot.
        """
        if before != after or before % 2:
            return Kept(self._most)
        with self._lock:
            if before > self._edition:
                self._edition, self._kept = before, Kept(self._most)
            return self._kept if before == self._edition else Kept(self._most)
