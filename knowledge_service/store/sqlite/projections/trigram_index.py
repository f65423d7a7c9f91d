"""An index of entities and observations by the trigrams of their texts.

An FTS5 table without content and positions stores the trigrams of each text. A row number consists
of the scope, the kind, and the complement of the fact's number. So a search reads one range in
ascending order, newest facts first, and other scopes do not delay it; in descending order, FTS5
would begin with the last row of the table. A search yields candidates, which are compared with the
facts themselves. The table is a projection of the facts. It is written once per commit, because
FTS5 begins a new segment whenever a row number is lower than the one before.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from knowledge_service.clock import Clock
from knowledge_service.search.text import trigrams
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.json_lists import json_list

KINDS: Mapping[str, int] = {"entity": 0, "observation": 1}
"""The kinds of facts in the index, with their numbers."""
_FACT_BITS = 32
_KIND_BITS = 1
_LAST_FACT = (1 << _FACT_BITS) - 1
# A search of more scopes runs one query for all of them instead of one for each.
_MAX_RANGES = 64
# A search intersects at most this many terms of a query, the rarest. A further term would cost more
# than comparing the candidates that it excludes.
_MAX_TERMS = 5
# The number of a term's newest rows from which its rarity is estimated.
_SAMPLE_SIZE = 12

_COLUMNS = "fact_no, scope_no, kind, content, title, subject"
_IS_INDEXED = "kind IN ('entity', 'observation')"
_FACTS = f"SELECT {_COLUMNS} FROM fact WHERE {_IS_INDEXED} ORDER BY scope_no, kind, fact_no DESC"
_BY_NUMBERS = f"""SELECT {_COLUMNS} FROM fact
  WHERE fact_no IN (SELECT value FROM json_each(?)) AND {_IS_INDEXED}"""
_ADD = "INSERT INTO trigram(rowid, grams) VALUES(?, ?)"
_REMOVE = "INSERT INTO trigram(trigram, rowid, grams) VALUES('delete', ?, ?)"
_CLEAR = "INSERT INTO trigram(trigram) VALUES('delete-all')"
_RANGE = """SELECT rowid FROM trigram WHERE trigram MATCH ? AND rowid BETWEEN ? AND ?
  ORDER BY rowid"""
_HAS_ROWS = f"{_RANGE} LIMIT 1"
# The mean distance of the newest rows with each term; NULL if there are none.
_DISTANCES = f"""SELECT (SELECT (CASE count(*) WHEN {_SAMPLE_SIZE}
    THEN max(rowid) - min(rowid) ELSE ?3 - ?2 END) / count(*)
  FROM (SELECT rowid FROM trigram WHERE trigram MATCH e.value AND rowid BETWEEN ?2 AND ?3
    ORDER BY rowid LIMIT {_SAMPLE_SIZE})) FROM json_each(?1) e ORDER BY e.key"""
_EVERYWHERE = "SELECT rowid FROM trigram WHERE trigram MATCH ?"
# `trigram_idx.pgno` is the number of a page in its segment, shifted left by one bit for a flag.
_SEGMENT_SIZES = "SELECT max(pgno >> 1) FROM trigram_idx GROUP BY segid"
_MERGE = "INSERT INTO trigram(trigram, rank) VALUES('merge', ?)"
# About how many pages a step of a merge writes, which takes the writer 5 to 15 ms.
_STEP_PAGES = 64
# All segments are merged when at least an eighth of the pages is outside the largest one. A growing
# table is therefore rewritten about eight times in all.
_SHARE_OUTSIDE = 8
_VOCABULARY = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.trigram_entry USING fts5vocab(main, trigram, instance)"
)
_DUMP = f"""SELECT term, count(*), sum(doc & {_LAST_FACT}), sum(doc >> {_FACT_BITS})
  FROM temp.trigram_entry GROUP BY term ORDER BY term"""


class Entry(NamedTuple):
    """The row of a fact, and its document."""

    row: int
    document: str


def entry(scope_no: int, fact_no: int, kind: str, texts: Iterable[str | None]) -> Entry | None:
    """Return the entry of a fact with these texts; None for facts of other kinds."""
    if kind not in KINDS:
        return None
    return Entry(_row(scope_no, kind, fact_no), trigrams.document(texts))


def entries(connection: apsw.Connection, numbers: Collection[int]) -> list[Entry]:
    """Return the entries of facts, which are given by number."""
    return [_entry_of(row) for row in connection.execute(_BY_NUMBERS, (json_list([*numbers]),))]


class TrigramChanges:
    """The changes of the table in one commit."""

    def __init__(self) -> None:
        self._added: dict[int, str] = {}
        self._removed: list[Entry] = []

    def add(self, new: Entry | None) -> None:
        """Add an entry."""
        if new is not None:
            self._added[new.row] = new.document

    def remove(self, old: Entry | None) -> None:
        """Remove an entry, also one that this commit added."""
        if old is not None and self._added.pop(old.row, None) is None:
            self._removed.append(old)

    def merge(self, later: TrigramChanges) -> None:
        """Add later changes."""
        for old in later._removed:
            self.remove(old)
        self._added |= later._added

    def write(self, connection: apsw.Connection) -> None:
        """Write the changes, before the commit."""
        if self._removed:
            connection.executemany(_REMOVE, sorted(self._removed))
        if self._added:
            connection.executemany(_ADD, sorted(self._added.items()))


def fill(
    connection: apsw.Connection, _clock: Clock | None = None, _progress: Progress | None = None
) -> None:
    """Fill the table from all facts, in the caller's transaction."""
    connection.execute(_CLEAR)
    connection.executemany(_ADD, (_entry_of(row) for row in connection.execute(_FACTS)))


def candidates(
    connection: apsw.Connection,
    scopes: Collection[int],
    kind: str,
    text: str,
    before_no: int | None = None,
) -> Iterator[int]:
    """Yield the numbers of facts of a kind that can contain a text, newest first.

    With `before_no`, only lower numbers.
    """
    terms = trigrams.of_query(text)
    newest = _LAST_FACT if before_no is None else before_no - 1
    if len(scopes) > _MAX_RANGES:
        yield from _of_many_scopes(connection, scopes, kind, terms, newest)
        return
    ranges = [
        _in_range(connection, terms, _row(scope_no, kind, newest), _row(scope_no, kind, 0))
        for scope_no in scopes
    ]
    yield from map(_fact_no, heapq.merge(*ranges, key=_complement))


def merge_some(connection: apsw.Connection) -> bool:
    """Merge segments of the table for some milliseconds; return False if nothing is left to merge.

    Each commit writes a segment, and a search reads all of them. FTS5 itself merges only segments
    of one size. A merge that a shutdown interrupted is continued.
    """
    if _merge(connection, _STEP_PAGES):
        return True
    sizes = [size for (size,) in connection.execute(_SEGMENT_SIZES)]
    outside = sum(sizes) - max(sizes, default=0)
    is_due = outside >= _STEP_PAGES and outside * _SHARE_OUTSIDE >= sum(sizes)
    return is_due and _merge(connection, -_STEP_PAGES)


def _merge(connection: apsw.Connection, pages: int) -> bool:
    """Merge about `pages` pages, of all segments if negative; return whether any were merged."""
    before = connection.total_changes()
    connection.execute(_MERGE, (pages,))
    return connection.total_changes() - before > 1  # the row of the command counts as one


def dump(connection: apsw.Connection) -> Iterator[Any]:
    """Yield each term with sums over its facts, because the pages depend on the order of writes."""
    connection.execute(_VOCABULARY)
    yield from connection.execute(_DUMP)


def _in_range(
    connection: apsw.Connection, terms: Sequence[str], first: int, last: int
) -> Iterator[int]:
    """Yield the rows with the rarest of some terms, newest first."""
    rarest = _rarest(connection, terms, first, last)
    if rarest:
        bindings = (trigrams.expression(rarest), first, last)
        yield from (row for (row,) in connection.execute(_RANGE, bindings))


def _rarest(
    connection: apsw.Connection, terms: Sequence[str], first: int, last: int
) -> Sequence[str]:
    """Return the terms to search by; none if there is no row with all of them.

    Terms next to each other in the query overlap, so most rows with one have the other as well. Of
    such neighbours, the more frequent ones come last.
    """
    if len(terms) <= _MAX_TERMS:
        return terms
    expressions = [trigrams.expression([term]) for term in terms]
    if not connection.execute(_HAS_ROWS, (expressions[0], first, last)).fetchall():
        return ()
    bindings = (json_list(expressions), first, last)
    distances = [distance for (distance,) in connection.execute(_DISTANCES, bindings)]
    if None in distances:
        return ()
    chosen: list[int] = []
    skipped: list[int] = []
    for at in sorted(range(len(terms)), key=distances.__getitem__, reverse=True):
        is_beside = any(abs(at - other) == 1 for other in chosen)
        (skipped if is_beside else chosen).append(at)
    return [terms[at] for at in (*chosen, *skipped)[:_MAX_TERMS]]


def _of_many_scopes(
    connection: apsw.Connection,
    scopes: Collection[int],
    kind: str,
    terms: Sequence[str],
    newest: int,
) -> Iterator[int]:
    ranges = {_row(scope_no, kind, 0) >> _FACT_BITS for scope_no in scopes}
    rows: Iterable[Any] = connection.execute(_EVERYWHERE, (trigrams.expression(terms),))
    numbers = [_fact_no(row) for (row,) in rows if row >> _FACT_BITS in ranges]
    return iter(sorted((number for number in numbers if number <= newest), reverse=True))


def _complement(row: int) -> int:
    return row & _LAST_FACT


def _fact_no(row: int) -> int:
    return _LAST_FACT - _complement(row)


def _row(scope_no: int, kind: str, fact_no: int) -> int:
    return ((scope_no << _KIND_BITS) | KINDS[kind]) << _FACT_BITS | (_LAST_FACT - fact_no)


def _entry_of(row: tuple[Any, ...]) -> Entry:
    fact_no, scope_no, kind, *texts = row
    return Entry(_row(scope_no, kind, fact_no), trigrams.document(texts))
