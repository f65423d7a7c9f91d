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

ErasedDocuments = Mapping[int, Sequence[int] | None]
"""By scope, the places of documents that became tombstones; None for a scope that was emptied."""

# What one thing costs beside its arrays: their heads, the key, the places in a table.
_OVERHEAD = 900
# The maximum number of editions noted between two recalls; arbitrary.
_MAX_PENDING = 1_000


class LruCache:
    """Things by key. Used by several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
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
        values = []
        with self._lock:
            for key in keys:
                entry = self._things.get(key)
                if entry is not None:
                    self._things.move_to_end(key)
                values.append(entry[0] if entry else None)
        return values

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a thing, in the place of what was there; what is too large by itself is not kept."""
        size = size_bytes + _OVERHEAD
        with self._lock:
            self._bytes -= self._things.pop(key, (None, 0))[1]
            if size <= self._most:
                self._things[key] = value, size
                self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._things.popitem(last=False)[1][1]

    def without(self, erased: ErasedDocuments) -> LruCache:
        """Return a copy without documents that became tombstones; this one stays as it is.

        Keys begin with the number of a scope; what is kept of a blanked one has `without`.
        """
        copy = LruCache(self._most)
        with self._lock:
            entries = list(self._things.items())
        for key, (value, size) in entries:
            scope_no = key[0] if isinstance(key, tuple) else -1
            if scope_no in erased:
                value = _without_documents(value, erased[scope_no])  # noqa: PLW2901 - what goes on
            if value is not None:
                copy.put(key, value, size - _OVERHEAD)
        return copy


def _without_documents(value: Any, ordinals: Sequence[int] | None) -> Any:
    if ordinals is None:
        return None
    for ordinal in ordinals:
        value = None if value is None else value.without(ordinal)
    return value


class VersionedCache:
    """The kept things of the newest edition."""

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self._edition = 0
        self._kept = LruCache(max_bytes)
        self._blanked: dict[int, ErasedDocuments] = {}
        self._lock = threading.Lock()

    def record_erasure(self, version: int, erased: ErasedDocuments) -> None:
        """Note what is erased in an edition, before a snapshot can lie in it."""
        with self._lock:
            self._blanked[version] = erased
            if len(self._blanked) > _MAX_PENDING:  # no recall took them
                self._blanked.clear()

    def for_snapshot(self, start_version: int, end_version: int) -> LruCache:
        """Return what a snapshot may use, by the editions read before and after it was begun.

        An odd edition is one in which something is being erased. What cannot be shared is forgotten
        with the snapshot.
        """
        if start_version != end_version or start_version % 2:
            return LruCache(self._most)
        with self._lock:
            if start_version > self._edition:
                self._advance(start_version)
            return self._kept if start_version == self._edition else LruCache(self._most)

    def _advance(self, target_version: int) -> None:
        cache: LruCache | None = self._kept
        merged: dict[int, list[int] | None] = {}
        for version in range(self._edition + 2, target_version + 1, 2):
            erased = self._blanked.pop(version, None)
            if erased is None:  # nobody said what was erased
                cache = None
                break
            for scope_no, ordinals in erased.items():
                pending = merged.setdefault(scope_no, [])
                merged[scope_no] = (
                    None if ordinals is None or pending is None else [*pending, *ordinals]
                )
        self._blanked = {
            number: version for number, version in self._blanked.items() if number > target_version
        }
        self._edition = target_version
        self._kept = cache.without(merged) if cache else LruCache(self._most)
