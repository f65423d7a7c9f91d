"""A least-recently-used cache of decoded index data, bounded in bytes.

Rows of the index are only appended and merged, so decoded data about the first documents of a scope
stays valid; only an erasure changes it. `VersionedCache` therefore has a version that changes with
each erasure, and shares its entries only with a snapshot that lies within one version. Entries pass
into the next version without the erased documents.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

ErasedDocuments = Mapping[int, Sequence[int] | None]
"""By scope, the positions of documents that became tombstones; None for an emptied scope."""

# The memory of an entry besides its arrays: object headers, the key, the slots of the table.
_OVERHEAD = 900
# The maximum number of erasures to keep between two recalls; arbitrary.
_MAX_PENDING = 1_000


class LruCache:
    """A thread-safe cache that evicts the least recently used entries.

    Below half of its limit, it does not record uses, so these entries count as used when added.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self._bytes = 0
        self._things: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Return the total size of the entries in bytes."""
        return self._bytes

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        return self.get_all((key,))[0]

    def get_all(self, keys: Sequence[Hashable]) -> list[Any]:
        """Return the value of each key, or None."""
        with self._lock:
            entries = list(map(self._things.get, keys))
            # Far from the limit, nothing is evicted, and a moved key costs several cache misses of
            # the processor.
            if self._bytes > self._most // 2:
                for key, entry in zip(keys, entries, strict=True):
                    if entry is not None:
                        self._things.move_to_end(key)
        return [None if entry is None else entry[0] for entry in entries]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Add or replace an entry. A value above the size limit is not kept."""
        size = size_bytes + _OVERHEAD
        with self._lock:
            self._bytes -= self._things.pop(key, (None, 0))[1]
            if size <= self._most:
                self._things[key] = value, size
                self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._things.popitem(last=False)[1][1]

    def without(self, erased: ErasedDocuments) -> LruCache:
        """Return a copy without documents that became tombstones; this cache does not change.

        Keys begin with a scope's number. Values of an affected scope must have the method
        `without`.
        """
        copy = LruCache(self._most)
        with self._lock:
            entries = list(self._things.items())
        for key, (value, size) in entries:
            scope_no = key[0] if isinstance(key, tuple) else -1
            if scope_no in erased:
                value = _without_documents(value, erased[scope_no])  # noqa: PLW2901 - the value to copy
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
    """The cache of the newest version."""

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self._edition = 0
        self._kept = LruCache(max_bytes)
        self._blanked: dict[int, ErasedDocuments] = {}
        self._lock = threading.Lock()

    def record_erasure(self, version: int, erased: ErasedDocuments) -> None:
        """Record what a version erased, before a snapshot can read that version."""
        with self._lock:
            self._blanked[version] = erased
            if len(self._blanked) > _MAX_PENDING:  # no recall consumed them
                self._blanked.clear()

    def clear(self) -> None:
        """Drop all entries, because another process searches from now on."""
        with self._lock:
            self._kept = LruCache(self._most)

    def for_snapshot(self, start_version: int, end_version: int) -> LruCache:
        """Return the cache for a snapshot, by the versions read before and after it was opened.

        An odd version means that an erasure is in progress. Then, or if the versions differ, the
        snapshot gets a private cache that is dropped with it.
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
            if erased is None:  # no record of what was erased
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
