"""Blocks and tail of the index in tables.

Written with the fact, folded by the writer, read in one snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from knowledge_service.index import analyser, postings, scorer
from knowledge_service.store.sqlite.transaction import Transaction

# Below this the tail is as good as blocks; above it, folding starts in slices of at most 5 ms.
_FOLD_FROM = 4096
_SLICE_S = 0.005
# 100,000 rows are a few thousand facts; a common term then has thousands of rows in the tail.
_OVERDUE = 100_000
_GROUPS = 64

_TAIL = "INSERT INTO tail(scope_no, term, fact_no, tf, length) VALUES(?, ?, ?, ?, ?)"
_DOC = "UPDATE scope SET docs = docs + 1, total_length = total_length + ? WHERE scope_no = ?"
_TAIL_SIZE = "SELECT count(*) FROM tail"
_GROUP = """SELECT scope_no, term FROM tail WHERE (scope_no, term) > (?, ?)
  GROUP BY scope_no, term ORDER BY scope_no, term LIMIT ?"""
_TAIL_ROWS = "SELECT fact_no, tf, length FROM tail WHERE scope_no = ? AND term = ? ORDER BY fact_no"
_UNTAIL = "DELETE FROM tail WHERE scope_no = ? AND term = ?"
_LAST_BLOCK = """SELECT block_no, n, data FROM block WHERE scope_no = ? AND term = ?
  ORDER BY block_no DESC LIMIT 1"""
_PUT_BLOCK = "INSERT OR REPLACE INTO block(scope_no, term, block_no, n, data) VALUES(?, ?, ?, ?, ?)"
_BLOCKS = "SELECT n, data FROM block WHERE scope_no = ? AND term = ? ORDER BY block_no"
_STATISTICS = "SELECT docs, total_length FROM scope WHERE scope_no = ?"


def add(connection: apsw.Connection, scope_no: int, fact_no: int, text: str) -> int:
    """Index a new fact's text; return how many tail rows that took."""
    counts = analyser.terms(text)
    length = sum(counts.values())
    connection.executemany(
        _TAIL, [(scope_no, term, fact_no, tf, length) for term, tf in counts.items()]
    )
    connection.execute(_DOC, (length, scope_no))
    return len(counts)


def search(
    connection: apsw.Connection, scope_nos: Iterable[int], terms: Iterable[str]
) -> scorer.Scores:
    """Score the facts of some scopes; nothing outside of these is read."""
    numbers = sorted(scope_nos)
    docs = total = 0
    for number in numbers:
        for row in connection.execute(_STATISTICS, (number,)):
            docs, total = docs + row[0], total + row[1]
    found = {term: postings.join(_read(connection, numbers, term)) for term in terms}
    return scorer.score(found, scorer.Statistics(docs, total))


def _read(
    connection: apsw.Connection, scope_nos: Sequence[int], term: str
) -> Iterable[postings.Block]:
    for number in scope_nos:
        blocks: Iterable[Any] = connection.execute(_BLOCKS, (number, term))
        for n, data in blocks:
            yield postings.unpack(n, data)
        tail: list[Any] = connection.execute(_TAIL_ROWS, (number, term)).fetchall()
        if tail:
            yield postings.from_rows(tail)


class Folder:
    """Folds the tail into blocks, a slice at a time, going round through the terms."""

    def __init__(self) -> None:
        self._size: int | None = None
        self._place: tuple[int, str] = (0, "")

    @property
    def is_overdue(self) -> bool:
        """Whether the tail slows searches down, so that folding cannot wait for a quiet moment."""
        return self._size is not None and self._size > _OVERDUE

    def grew(self, rows: int) -> None:
        """Note that the tail has more rows; a write that is taken back only makes folding early."""
        if self._size is not None:
            self._size += rows

    def slice(self, tx: Transaction) -> bool:
        """Fold for 5 ms; tell whether there is more to fold."""
        if self._size is None:
            self._size = (tx.one(_TAIL_SIZE) or (0,))[0]
        if self._size < _FOLD_FROM and self._place == (0, ""):
            return False
        end = time.monotonic() + _SLICE_S
        groups = tx.all(_GROUP, (*self._place, _GROUPS))
        for scope_no, term in groups:
            self._size -= _fold(tx, scope_no, term)
            self._place = (scope_no, term)
            if time.monotonic() > end:
                return True
        if len(groups) < _GROUPS:
            self._place, self._size = (0, ""), None
            return False
        return True


def _fold(tx: Transaction, scope_no: int, term: str) -> int:
    tail = tx.all(_TAIL_ROWS, (scope_no, term))
    last = tx.one(_LAST_BLOCK, (scope_no, term))
    number, rows = 0, list(tail)
    if last:
        number, n, data = last
        if n < postings.BLOCK_SIZE:
            rows = postings.rows(n, data) + rows
        else:
            number += 1
    for start in range(0, len(rows), postings.BLOCK_SIZE):
        chunk = rows[start : start + postings.BLOCK_SIZE]
        tx.execute(_PUT_BLOCK, (scope_no, term, number, len(chunk), postings.pack(chunk)))
        number += 1
    tx.execute(_UNTAIL, (scope_no, term))
    return len(tail)
