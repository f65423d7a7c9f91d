"""Equal facts found by their hashes: a table of packed blocks, and what the writer knows of it.

The table is a projection of the facts' own and is written once in a commit, like the index. What
was read of a scope stays in memory, with what the jobs of the present commit have added; what a
failed one added is taken back. A hash that begins alike is compared whole with the fact's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from knowledge_service.clock import Clock
from knowledge_service.index import equality
from knowledge_service.index.equality import Known
from knowledge_service.progress import Progress

# 2**24 blocks a scope, 2**39 scopes: together one positive key.
_SCOPE = 24
_END = (1 << _SCOPE) - 1
# Entries of 12 bytes in memory, of all scopes but the one that is asked for.
_MOST = 2_000_000
# What a small scope takes beside its entries, in entries.
_EACH = 256

_ROWS = "SELECT key, data FROM equal WHERE key >= ? AND key < ? ORDER BY key"
_LAST = f"""SELECT s.value, e.key, e.data FROM json_each(?) s LEFT JOIN equal e ON e.key =
  (SELECT max(b.key) FROM equal b
    WHERE b.key >= s.value << {_SCOPE} AND b.key < (s.value + 1) << {_SCOPE})"""
_PUT = "INSERT OR REPLACE INTO equal(key, data) VALUES(?, ?)"
_DROP = "DELETE FROM equal WHERE key >= ? AND key < ?"
_CLEAR = "DELETE FROM equal"
_FACTS = "SELECT scope_no, fact_no, substr(content_hash, 1, 8) FROM fact ORDER BY fact_no"
# The numbers lead to the facts; without a sign SQLite would go through the scope.
_AMONG = """SELECT fact_no, content_hash FROM fact
  WHERE fact_no IN (SELECT value FROM json_each(?)) AND +scope_no = ?"""


class Equals:
    """What the writer asks and tells; `mark` and `back` go around each job."""

    def __init__(self, connection: apsw.Connection, *, most: int = _MOST) -> None:
        self._connection = connection
        self._most = most
        self._known: dict[int, Known] = {}  # that which was asked for last is the last
        self._size = 0
        self._added: dict[int, tuple[list[int], list[int]]] = {}
        self._touched: dict[int, set[int]] = {}
        self._journal: list[tuple[int, int]] = []

    def numbers(self, scope_no: int, content_hash: bytes) -> list[int]:
        """Return the numbers of facts of a scope among which are all with this hash."""
        (begin,) = equality.beginnings([content_hash])
        return self._of(scope_no).numbers(begin)

    def among(self, scope_no: int, hashes: Sequence[bytes]) -> set[bytes]:
        """Return which of these hashes facts of a scope have."""
        begins = equality.beginnings(hashes)
        known = self._of(scope_no)
        alike = known.among(begins)
        if not alike:
            return set()
        asked = json.dumps([number for begin in alike for number in known.numbers(begin)])
        found: Any = self._connection.execute(_AMONG, (asked, scope_no))
        return {content_hash for _, content_hash in found} & set(hashes)

    def add(self, scope_no: int, hashes: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Enter facts that were just written."""
        begins = equality.beginnings(hashes)
        if scope_no in self._known:
            self._known[scope_no].add(begins, numbers)
            self._size += len(begins)
        of_scope = self._added.setdefault(scope_no, ([], []))
        of_scope[0].extend(begins)
        of_scope[1].extend(numbers)
        self._journal.append((scope_no, len(begins)))

    def erase(self, scope_no: int, numbers: Iterable[int]) -> None:
        """Leave facts out that are not there any more."""
        self._touched.setdefault(scope_no, set()).update(numbers)

    def move(self, scope_no: int, to: int, numbers: Sequence[int]) -> None:
        """Follow facts that are in another scope now."""
        found: Any = self._connection.execute(_AMONG, (json.dumps(numbers), to)).fetchall()
        self.add(to, [content_hash for _, content_hash in found], [number for number, _ in found])
        self.erase(scope_no, numbers)
        self.erase(to, numbers)

    def mark(self) -> int:
        """Return where a job begins."""
        return len(self._journal)

    def back(self, mark: int) -> None:
        """Take back what was added since; what was touched is looked at again in any case."""
        while len(self._journal) > mark:
            scope_no, count = self._journal.pop()
            if not count:
                continue
            if scope_no in self._known:
                self._known[scope_no].take_back(count)
                self._size -= count
            for column in self._added[scope_no]:
                del column[-count:]

    def write(self) -> None:
        """Write what was added to the table, before the commit."""
        self._append(
            [each for each in self._added.keys() - self._touched.keys() if self._added[each][0]]
        )
        for scope_no, touched in self._touched.items():
            self._write_again(scope_no, touched)

    def settle(self) -> None:
        """Keep what was added, after the commit."""
        for scope_no in self._added.keys() - self._touched.keys():
            if scope_no in self._known:
                self._known[scope_no].settle()
        for scope_no in self._touched:
            self._let_go(scope_no)
        self._begin()

    def forget(self) -> None:
        """Forget what was added; the commit has failed."""
        for scope_no in self._added:
            self._let_go(scope_no)
        self._begin()

    def _begin(self) -> None:
        self._added, self._touched, self._journal = {}, {}, []

    def _of(self, scope_no: int) -> Known:
        known = self._known.pop(scope_no, None)
        if known is None:
            known = Known(equality.unpack(b"".join([data for _, data in self._rows(scope_no)])))
            if scope_no in self._added:
                known.add(*self._added[scope_no])
            self._size += len(known) + _EACH
            while self._size > self._most and self._known:
                self._let_go(next(iter(self._known)))
        self._known[scope_no] = known
        return known

    def _let_go(self, scope_no: int) -> None:
        known = self._known.pop(scope_no, None)
        if known is not None:
            self._size -= len(known) + _EACH

    def _rows(self, scope_no: int) -> list[Any]:
        low = scope_no << _SCOPE
        return self._connection.execute(_ROWS, (low, low + _END)).fetchall()

    def _append(self, scope_nos: Sequence[int]) -> None:
        """Put entries behind the others of their scopes: a new fact's number is the highest."""
        last: Any = self._connection.execute(_LAST, (json.dumps(scope_nos),))
        rows: list[tuple[int, bytes]] = []
        for scope_no, key, before in last.fetchall():
            data = (before or b"") + equality.pack(*self._added[scope_no])
            begin = scope_no << _SCOPE if key is None else key
            rows += enumerate(equality.blocks(data), begin)
        self._connection.executemany(_PUT, rows)

    def _write_again(self, scope_no: int, touched: set[int]) -> None:
        """Write a scope's blocks from the first on that is another one now."""
        rows = self._rows(scope_no)
        begins, numbers = self._added.get(scope_no, ([], []))
        every = b"".join([data for _, data in rows]) + equality.pack(begins, numbers)
        found: Any = self._connection.execute(_AMONG, (json.dumps(list(touched)), scope_no))
        there = found.fetchall()
        more = equality.pack(equality.beginnings([h for _, h in there]), [no for no, _ in there])
        data = equality.ordered(equality.unpack(every), list(touched), more)
        same = 0
        for (_, old), new in zip(rows, equality.blocks(data), strict=False):
            if old != new:
                break
            same += 1
        key = (scope_no << _SCOPE) + same
        self._connection.execute(_DROP, (key, (scope_no << _SCOPE) + _END))
        _put(self._connection, key, data[same * equality.BLOCK * equality.SIZE :])


def fill(
    connection: apsw.Connection, _clock: Clock | None = None, _progress: Progress | None = None
) -> None:
    """Make the table anew from the facts, inside the caller's transaction."""
    connection.execute(_CLEAR)
    found: dict[int, bytearray] = {}
    for scope_no, fact_no, begin in connection.execute(_FACTS):
        found.setdefault(scope_no, bytearray()).extend(begin + fact_no.to_bytes(4, "little"))
    for scope_no, data in sorted(found.items()):
        _put(connection, scope_no << _SCOPE, bytes(data))


def _put(connection: apsw.Connection, key: int, data: bytes) -> None:
    connection.executemany(_PUT, enumerate(equality.blocks(data), key))
