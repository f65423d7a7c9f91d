"""The index in a table: written in the fact's own transaction, read in one snapshot.

A row's key is scope, bucket and first document in one number. `search.postings.merge_policy`
determines the content of rows and when they are merged; no merge is left for later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from knowledge_service.search.postings import bisection, merge_policy, segment_codec
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.postings.index_rows import RowRange, Rows
from knowledge_service.search.postings.segment import TOMBSTONE
from knowledge_service.search.postings.segment_codec import DOCUMENTS, Row
from knowledge_service.search.ranking import bm25
from knowledge_service.search.text import analyser, term_ids
from knowledge_service.store.sqlite.json_lists import json_list

VERSION = f"segments-2 {analyser.VERSION}"
"""The required value of `meta.index`; an index of another version is rebuilt."""

Text = str | bytes
"""A text, or the result of `term_ids.term_ids_of` for it."""


class Erased(NamedTuple):
    """A fact that leaves the index, and the text that it was indexed by."""

    scope_no: int
    fact_no: int
    text: Text


# 2**28 documents in a scope, 2**11 buckets, 2**24 scopes: together one positive key.
_BUCKET, _SCOPE = 28, 39
_FIRST = (1 << _BUCKET) - 1
_BUCKETS = (1 << (_SCOPE - _BUCKET)) - 1

# The size of the cache of a search without a shared cache, so that it reads no row twice.
_ONE_SEARCH = 1 << 24

_KEYS = "SELECT key FROM posting WHERE key >= ? AND key < ? ORDER BY key"
_ROW = "SELECT size, data FROM posting WHERE key = ?"
_RANGE = "SELECT key, size, data FROM posting WHERE key >= ? AND key < ?"
_DATA = """SELECT p.key, p.data FROM json_each(?1) r
  CROSS JOIN posting p WHERE p.key >= r.value ->> 0 AND p.key < r.value ->> 1"""
# The rows of documents are the first bucket of a scope. The number of documents follows from the
# last of these rows.
_COUNTS = f"""SELECT s.value, p.key, p.size FROM json_each(?1) s CROSS JOIN posting p
  ON p.key = (SELECT max(key) FROM posting
    WHERE key >= s.value << {_SCOPE} AND key < (s.value << {_SCOPE}) + {_FIRST})"""
_PUT = "INSERT OR REPLACE INTO posting(key, size, data) VALUES(?, ?, ?)"
_DROP = "DELETE FROM posting WHERE key = ?"
_DROP_RANGE = "DELETE FROM posting WHERE key >= ? AND key < ?"
_CLEAR = "DELETE FROM posting"


def add(connection: apsw.Connection, scope_no: int, texts: Iterable[tuple[int, Text]]) -> None:
    """Index the texts of new facts of one scope, in ascending order of their numbers."""
    packed_texts = [
        (fact_no, term_ids.term_ids_of(text) if isinstance(text, str) else text)
        for fact_no, text in texts
    ]
    if packed_texts:
        _append(connection, scope_no, packed_texts)


def erase(connection: apsw.Connection, erased: Erased) -> int | None:
    """Replace a fact with a tombstone; return its position, or None when there is no such fact.

    The positions of other facts do not change, so only rows of the fact's own segment are written.
    """
    scope_no, fact_no, text = erased
    row = _row_holding(connection, scope_no, fact_no)
    if row is None:
        return None
    ordinal = int((segment_codec.numbers(row.data) == fact_no).nonzero()[0][0])
    rows = [row]
    if row.size == segment_codec.SHARD_SIZE:
        packed = term_ids.term_ids_of(text) if isinstance(text, str) else text
        document = term_ids.document_packed(fact_no, packed)
        for bucket in sorted({segment_codec.bucket(term) for term in document.terms}):
            rows += _rows(connection, scope_no, bucket, row.first, row.first + 1)
    rewritten = [segment_codec.erase_document(changed, ordinal) for changed in rows]
    _replace(connection, scope_no, rows, [changed for changed in rewritten if changed])
    return row.first + ordinal


def clear_scope(connection: apsw.Connection, scope_no: int) -> None:
    """Empty the index of one scope."""
    connection.execute(_DROP_RANGE, (scope_no << _SCOPE, (scope_no + 1) << _SCOPE))


def clear(connection: apsw.Connection) -> None:
    """Empty the index."""
    connection.execute(_CLEAR)


def search(
    connection: apsw.Connection,
    scope_nos: Iterable[int],
    term_weights: Mapping[str, float],
    cache: LruCache | None = None,
    related: bm25.Related | None = None,
) -> bm25.Scores:
    """Score the facts of some scopes by weighted terms; nothing outside these scopes is read.

    Decoded postings are read from `cache` and added to it.
    """
    return bm25.search(
        Snapshot(connection), cache or LruCache(_ONE_SEARCH), scope_nos, term_weights, related
    )


class Snapshot:
    """The `search.postings.index_rows.Source` of a connection's snapshot."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def counts(self, scope_nos: Sequence[int]) -> dict[int, int]:
        """Return the number of documents of each scope, from its last segment."""
        scopes_json = json_list(list(scope_nos))
        rows: Any = self._connection.execute(_COUNTS, (scopes_json,))
        return {scope_no: (key & _FIRST) + size for scope_no, key, size in rows}

    def rows(self, ranges: Sequence[RowRange]) -> Rows:
        """Read all ranges of keys with one statement."""
        keys = []
        for scope_no, bucket, first, end in ranges:
            low = _key(scope_no, bucket, 0)
            keys.append((low + first, low + end))
        rows: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        for key, data in self._connection.execute(_DATA, (json_list(keys),)):
            bucket = ((key >> _BUCKET) & _BUCKETS) - 1
            rows.setdefault((key >> _SCOPE, bucket), []).append((key & _FIRST, data))
        return rows


def _append(
    connection: apsw.Connection, scope_no: int, documents: Sequence[tuple[int, bytes]]
) -> None:
    old_count = Snapshot(connection).counts([scope_no]).get(scope_no, 0)
    first = merge_policy.unchanged_prefix(old_count, old_count + len(documents))
    if first == old_count and len(documents) == 1:
        document = term_ids.document_packed(*documents[0])
        _replace(connection, scope_no, (), (segment_codec.pack_single(document, first),))
        return
    rows = [] if first == old_count else _rows(connection, scope_no, DOCUMENTS, first)
    if rows:
        low = _key(scope_no, DOCUMENTS, 0)
        connection.execute(_DROP_RANGE, (low + first, low + _FIRST))
    _replace(connection, scope_no, (), merge_policy.extend(rows, documents, first))


def _replace(
    connection: apsw.Connection, scope_no: int, removed: Sequence[Row], added: Iterable[Row]
) -> None:
    if removed:
        removed_keys = [(_key(scope_no, row.bucket, row.first),) for row in removed]
        connection.executemany(_DROP, removed_keys)
    rows = ((_key(scope_no, row.bucket, row.first), row.size, row.data) for row in added)
    connection.executemany(_PUT, rows)


def _rows(
    connection: apsw.Connection, scope_no: int, bucket: int, first: int = 0, end: int = _FIRST
) -> list[Row]:
    low = _key(scope_no, bucket, 0)
    cursor = connection.execute(_RANGE, (low + first, low + end))
    return [Row(bucket, key - low, size, data) for key, size, data in cursor]


def _row_holding(connection: apsw.Connection, scope_no: int, fact_no: int) -> Row | None:
    """Find the row of documents that has a fact, by bisection: live numbers ascend."""
    low = _key(scope_no, DOCUMENTS, 0)
    keys = [key for (key,) in connection.execute(_KEYS, (low, low + _FIRST))]

    def row(index: int) -> Row:
        fetched: Any = connection.execute(_ROW, (keys[index],)).fetchall()
        return Row(DOCUMENTS, keys[index] - low, *fetched[0])

    def first_of(index: int) -> int | None:
        numbers = segment_codec.numbers(row(index).data)
        live = numbers[numbers != TOMBSTONE]
        return int(live[0]) if len(live) else None

    index = bisection.last_at_most(len(keys), first_of, fact_no)
    if index is None:
        return None
    row_found = row(index)
    return row_found if (segment_codec.numbers(row_found.data) == fact_no).any() else None


def _key(scope_no: int, bucket: int, first: int) -> int:
    return (scope_no << _SCOPE) + ((bucket + 1) << _BUCKET) + first
