"""What was decoded of the index, kept in memory up to a number of bytes, the last used longest.

Rows of the index are added and joined, and what a kept thing says of the first so many documents of
a scope stays true; only erasing changes it. `Keeping` therefore has an edition that changes with
each erasure, and hands what it keeps only to a snapshot that lies wholly within an edition. What
was kept goes on into the next edition without the erased documents.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Blanked = Mapping[int, Sequence[int] | None]
"""By scope, the places of documents that became tombstones; None for a scope that was emptied."""

# What one thing costs beside its arrays: their heads, the key, the places in a table.
_OVERHEAD = 900
# The maximum number of editions noted between two recalls; arbitrary.
_MOST_BLANKED = 1_000


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

    def without(self, blanked: Blanked) -> Kept:
        """Return a copy without documents that became tombstones; this one stays as it is.

        Keys begin with the number of a scope; what is kept of a blanked one has `without`.
        """
        copy = Kept(self._most)
        with self._lock:
            things = list(self._things.items())
        for key, (thing, size) in things:
            scope_no = key[0] if isinstance(key, tuple) else -1
            if scope_no in blanked:
                thing = _without(thing, blanked[scope_no])  # noqa: PLW2901 - what goes on
            if thing is not None:
                copy.put(key, thing, size - _OVERHEAD)
        return copy


def _without(thing: Any, places: Sequence[int] | None) -> Any:
    if places is None:
        return None
    for place in places:
        thing = None if thing is None else thing.without(place)
    return thing


class Keeping:
    """The kept things of the newest edition."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._edition = 0
        self._kept = Kept(most_bytes)
        self._blanked: dict[int, Blanked] = {}
        self._lock = threading.Lock()

    def blank(self, edition: int, blanked: Blanked) -> None:
        """Note what is erased in an edition, before a snapshot can lie in it."""
        with self._lock:
            self._blanked[edition] = blanked
            if len(self._blanked) > _MOST_BLANKED:  # no recall took them
                self._blanked.clear()

    def between(self, before: int, after: int) -> Kept:
        """Return what a snapshot may use, by the editions read before and after it was begun.

        An odd edition is one in which something is being erased. What cannot be shared is forgotten
        with the snapshot.
        """
        if before != after or before % 2:
            return Kept(self._most)
        with self._lock:
            if before > self._edition:
                self._advance(before)
            return self._kept if before == self._edition else Kept(self._most)

    def _advance(self, edition: int) -> None:
        kept: Kept | None = self._kept
        merged: dict[int, list[int] | None] = {}
        for each in range(self._edition + 2, edition + 1, 2):
            blanked = self._blanked.pop(each, None)
            if blanked is None:  # nobody said what was erased
                kept = None
                break
            for scope_no, places in blanked.items():
                before = merged.setdefault(scope_no, [])
                merged[scope_no] = None if places is None or before is None else [*before, *places]
        self._blanked = {number: each for number, each in self._blanked.items() if number > edition}
        self._edition = edition
        self._kept = kept.without(merged) if kept else Kept(self._most)
