"""Finds equal facts by their hashes: a table of packed blocks, and the writer's cache of it.

The table is a projection of the facts and is written once in a commit, like the index. Scopes that
were read stay in memory, with the entries that jobs of the current commit added; those of a failed
job are removed. If the prefix of a hash matches, the whole hash is compared with the fact's. An
erased fact leaves a tombstone, so that only its own block is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw

from knowledge_service.clock import Clock
from knowledge_service.search.postings import bisection, hash_index
from knowledge_service.search.postings.hash_index import PrefixSet
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.json_lists import json_list

# 2**24 blocks in a scope, 2**39 scopes: together one positive key.
_SCOPE = 24
_END = (1 << _SCOPE) - 1
# The maximum number of cached entries, of 12 bytes each, without those of the current scope.
_MAX_CACHED = 2_000_000
# The memory of a small scope besides its entries, in entries.
_SCOPE_OVERHEAD = 256

_ROWS = "SELECT key, data FROM equal WHERE key >= ? AND key < ? ORDER BY key"
_LAST = f"""SELECT s.value, e.key, e.data FROM json_each(?) s LEFT JOIN equal e ON e.key =
  (SELECT max(b.key) FROM equal b
    WHERE b.key >= s.value << {_SCOPE} AND b.key < (s.value + 1) << {_SCOPE})"""
_HIGHEST = "SELECT max(key) FROM equal WHERE key >= ? AND key < ?"
_BLOCK = "SELECT data FROM equal WHERE key = ?"
_WRITE_BLOCK = "INSERT OR REPLACE INTO equal(key, data) VALUES(?, ?)"
_DROP = "DELETE FROM equal WHERE key >= ? AND key < ?"
_CLEAR = "DELETE FROM equal"
_FACTS = "SELECT scope_no, fact_no, substr(content_hash, 1, 8) FROM fact ORDER BY fact_no"
# The unary plus makes SQLite look up the facts by their numbers instead of scanning the scope.
_AMONG = """SELECT fact_no, content_hash FROM fact
  WHERE fact_no IN (SELECT value FROM json_each(?)) AND +scope_no = ?"""


class Mark(NamedTuple):
    """The progress of the commit when a job began."""

    added: int
    erased: int
    emptied: int


class _Erased(NamedTuple):
    """An erased entry; `added_at` is its position among those that the same commit added."""

    scope_no: int
    number: int
    prefix: int
    added_at: int | None


class Tombstone(NamedTuple):
    """The entry of an erased fact; `previous_number` is that of the last fact before it, or 0."""

    scope_no: int
    previous_number: int
    number: int

    @property
    def entry(self) -> bytes:
        """Pack the entry."""
        return hash_index.pack([hash_index.TOMBSTONE], [self.number])


class HashIndexTable:
    """The writer's interface to the table; `savepoint` and `rollback` enclose each job."""

    def __init__(self, connection: apsw.Connection, *, max_cached: int = _MAX_CACHED) -> None:
        self._connection = connection
        self._most = max_cached
        self._known: dict[int, PrefixSet] = {}  # in the order of use, most recent last
        self._size = 0
        self._added: dict[int, tuple[list[int], list[int]]] = {}
        self._journal: list[tuple[int, int]] = []
        # Erased entries, then emptied scopes as (scope, number of entries that were added before).
        self._erased: list[_Erased] = []
        self._emptied: list[tuple[int, int]] = []

    def numbers(self, scope_no: int, content_hash: bytes) -> list[int]:
        """Return the numbers of a scope's facts that may have this hash."""
        (begin,) = hash_index.hash_prefixes([content_hash])
        return self._prefixes_of(scope_no).numbers(begin)

    def find_existing(self, scope_no: int, hashes: Sequence[bytes]) -> set[bytes]:
        """Return the hashes that facts of a scope have."""
        begins = hash_index.hash_prefixes(hashes)
        prefixes = self._prefixes_of(scope_no)
        alike = prefixes.intersection(begins)
        if not alike:
            return set()
        candidates = json_list([number for begin in alike for number in prefixes.numbers(begin)])
        matches: Any = self._connection.execute(_AMONG, (candidates, scope_no))
        return {content_hash for _, content_hash in matches} & set(hashes)

    def add(self, scope_no: int, hashes: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Add facts that were just written."""
        begins = hash_index.hash_prefixes(hashes)
        if scope_no in self._known:
            self._known[scope_no].add(begins, numbers)
            self._size += len(begins)
        of_scope = self._added.setdefault(scope_no, ([], []))
        of_scope[0].extend(begins)
        of_scope[1].extend(numbers)
        self._journal.append((scope_no, len(begins)))

    def erase(self, scope_no: int, number: int, content_hash: bytes) -> None:
        """Replace the entry of an erased fact with a tombstone."""
        (begin,) = hash_index.hash_prefixes([content_hash])
        begins, numbers = self._added.get(scope_no, ([], []))
        added = [
            at
            for at, entry in enumerate(zip(begins, numbers, strict=True))
            if entry == (begin, number)
        ]
        self._erased.append(_Erased(scope_no, number, begin, added[-1] if added else None))

    def move(self, scope_no: int, to: int, numbers: Sequence[int]) -> None:
        """Move all facts of a scope to another one, whose own facts are older."""
        moved: Any = self._connection.execute(_AMONG, (json_list(numbers), to)).fetchall()
        moved.sort()
        self.add(to, [content_hash for _, content_hash in moved], [number for number, _ in moved])
        self.empty(scope_no)

    def empty(self, scope_no: int) -> None:
        """Remove all facts of a scope."""
        added, _ = self._added.get(scope_no, ((), ()))
        self._emptied.append((scope_no, len(added)))
        self._evict(scope_no)

    def savepoint(self) -> Mark:
        """Return the state before a job."""
        return Mark(len(self._journal), len(self._erased), len(self._emptied))

    def rollback(self, mark: Mark) -> None:
        """Undo all changes since a savepoint."""
        del self._erased[mark.erased :], self._emptied[mark.emptied :]
        while len(self._journal) > mark.added:
            scope_no, count = self._journal.pop()
            if not count:
                continue
            if scope_no in self._known:
                self._known[scope_no].undo_add(count)
                self._size -= count
            for column in self._added[scope_no]:
                del column[-count:]

    def write(self) -> None:
        """Write the changes to the table, before the commit.

        Erasures come first: a new fact may have the number of an erased one.
        """
        for erased in self._erased:
            if erased.added_at is not None:
                self._added[erased.scope_no][0][erased.added_at] = hash_index.TOMBSTONE
        for scope_no, before in dict(self._emptied).items():
            low = scope_no << _SCOPE
            self._connection.execute(_DROP, (low, low + _END))
            for column in self._added.get(scope_no, ()):
                del column[:before]
        for erased in self._erased:
            if erased.added_at is None:
                self._blank(erased.scope_no, erased.number, erased.prefix)
        self._append([number for number in self._added if self._added[number][0]])

    def commit(self) -> None:
        """Keep added entries in the cache after the commit; erased entries match no fact."""
        for scope_no, _ in self._emptied:
            self._evict(scope_no)
        for scope_no in self._added:
            if scope_no in self._known:
                self._known[scope_no].merge()
        self._begin()

    def forget(self) -> None:
        """Drop added entries from the cache after a failed commit."""
        for scope_no in self._added:
            self._evict(scope_no)
        self._begin()

    def _begin(self) -> None:
        self._added, self._journal, self._erased, self._emptied = {}, [], [], []

    def _prefixes_of(self, scope_no: int) -> PrefixSet:
        prefixes = self._known.pop(scope_no, None)
        if prefixes is None:
            prefixes = PrefixSet(
                hash_index.unpack(b"".join([data for _, data in self._rows(scope_no)]))
            )
            if scope_no in self._added:
                prefixes.add(*self._added[scope_no])
            self._size += len(prefixes) + _SCOPE_OVERHEAD
            while self._size > self._most and self._known:
                self._evict(next(iter(self._known)))
        self._known[scope_no] = prefixes
        return prefixes

    def _evict(self, scope_no: int) -> None:
        prefixes = self._known.pop(scope_no, None)
        if prefixes is not None:
            self._size -= len(prefixes) + _SCOPE_OVERHEAD

    def _rows(self, scope_no: int) -> list[Any]:
        low = scope_no << _SCOPE
        return self._connection.execute(_ROWS, (low, low + _END)).fetchall()

    def _append(self, scope_nos: Sequence[int]) -> None:
        """Append entries to those of their scopes: a new fact has the highest number."""
        last: Any = self._connection.execute(_LAST, (json_list(scope_nos),))
        rows: list[tuple[int, bytes]] = []
        for scope_no, key, old_block in last.fetchall():
            data = (old_block or b"") + hash_index.pack(*self._added[scope_no])
            begin = scope_no << _SCOPE if key is None else key
            rows += enumerate(hash_index.blocks(data), begin)
        self._connection.executemany(_WRITE_BLOCK, rows)

    def _blank(self, scope_no: int, number: int, begin: int) -> None:
        """Write the one block that contains an entry."""
        low = scope_no << _SCOPE
        highest: Any = self._connection.execute(_HIGHEST, (low, low + _END)).fetchall()
        last = highest[0][0]

        def block(at: int) -> bytes:
            rows: Any = self._connection.execute(_BLOCK, (low + at,)).fetchall()
            return bytes(rows[0][0])

        count = 0 if last is None else last - low + 1
        at = bisection.last_at_most(count, lambda at: hash_index.first_live(block(at)), number)
        data = None if at is None else hash_index.erase_entry(block(at), begin, number)
        if at is not None and data is not None:
            self._connection.execute(_WRITE_BLOCK, (low + at, data))


def fill(
    connection: apsw.Connection, _clock: Clock | None = None, _progress: Progress | None = None
) -> None:
    """Rebuild the table from the facts of an older file, which has no tombstones."""
    refill(connection, ())


class ChangedHash(NamedTuple):
    """A stored fact that has another hash now."""

    scope_no: int
    number: int
    old: bytes
    new: bytes


def replace_hashes(connection: apsw.Connection, changes: Iterable[ChangedHash]) -> None:
    """Replace entries in their places, in the caller's transaction."""
    entries: dict[int, dict[bytes, bytes]] = {}
    for change in changes:
        number = change.number.to_bytes(4, "little")
        of_scope = entries.setdefault(change.scope_no, {})
        of_scope[change.old[:8] + number] = change.new[:8] + number
    for scope_no, replacements in entries.items():
        span = (scope_no << _SCOPE, (scope_no + 1) << _SCOPE)
        rows: list[Any] = connection.execute(_ROWS, span).fetchall()
        for key, data in rows:
            items = (data[at : at + hash_index.SIZE] for at in range(0, len(data), hash_index.SIZE))
            connection.execute(
                _WRITE_BLOCK, (key, b"".join(replacements.get(item, item) for item in items))
            )


def refill(connection: apsw.Connection, tombstones: Iterable[Tombstone]) -> None:
    """Rebuild the table from facts and tombstones, in the caller's transaction.

    Tombstones are in the order of their scopes' documents.
    """
    connection.execute(_CLEAR)
    waiting: dict[int, deque[Tombstone]] = {}
    for tombstone in tombstones:
        waiting.setdefault(tombstone.scope_no, deque()).append(tombstone)
    scopes: dict[int, bytearray] = {}
    for scope_no, fact_no, begin in connection.execute(_FACTS):
        entries = scopes.setdefault(scope_no, bytearray())
        scope_tombstones = waiting.get(scope_no)
        while scope_tombstones and scope_tombstones[0].previous_number < fact_no:
            entries += scope_tombstones.popleft().entry
        entries += begin + fact_no.to_bytes(4, "little")
    for scope_no, scope_tombstones in waiting.items():
        for tombstone in scope_tombstones:
            scopes.setdefault(scope_no, bytearray()).extend(tombstone.entry)
    for scope_no, data in sorted(scopes.items()):
        blocks = hash_index.blocks(bytes(data))
        connection.executemany(_WRITE_BLOCK, enumerate(blocks, scope_no << _SCOPE))
