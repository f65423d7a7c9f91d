"""Drops every projection, replays the log, and compares the projections to the byte.

The comparison uses the canonical dump: every row of every projection table by its key, including
the index's packed rows. Receipts, usage and idempotency keys are not projections and do not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import apsw

from knowledge_service.domain.facts import canonical
from knowledge_service.event_log import fact_events, index_documents, legacy_rows
from knowledge_service.event_log import replay as replays
from knowledge_service.event_log.events import Event
from knowledge_service.search.postings import segment
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite import projections
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.projections import (
    SqliteProjections,
    hash_index_table,
    outcome_totals,
    trigram_index,
)

_REPLAY_FROM = "SELECT coalesce((SELECT value FROM meta WHERE key = 'replay_from'), '1')"
_SPAN = f"SELECT ({_REPLAY_FROM}), coalesce(max(seq), 0) FROM event"
_RECORDED = """SELECT DISTINCT seq FROM json_each(?1) n
  CROSS JOIN fact_event x ON x.fact_no = n.value CROSS JOIN event e USING(seq)
  WHERE e.type = ?2 ORDER BY seq"""
_INDEX_IS = "SELECT value FROM meta WHERE key = 'index'"
_INDEX_NOW = "INSERT OR REPLACE INTO meta(key, value) VALUES('index', ?)"

# An arbitrary number of facts that are held in memory at once, a few kilobytes each.
_AT_ONCE = 8192


def replay(connection: apsw.Connection, progress: Progress | None = None) -> int:
    """Rebuild the projections inside the caller's transaction; return the number of events."""
    return replays.replay(_counted(connection, progress), SqliteProjections(connection))


def rebuild(connection: apsw.Connection) -> int:
    """Replay in a separate transaction, so that a failure changes nothing."""
    with _one_transaction(connection):
        count = replay(connection)
        outcome_totals.refill(connection)
        index_all(connection)
    return count


def renew_index(connection: apsw.Connection, progress: Progress | None = None) -> None:
    """Rebuild the index if another version of the analyser or of the packing built it."""
    made_by: Any = connection.execute(_INDEX_IS).fetchall()
    if made_by != [(posting_table.VERSION,)]:
        reporter = progress or Progress()
        with reporter.step("rebuilding the index"), _one_transaction(connection):
            index_all(connection, reporter)


def events(connection: apsw.Connection) -> Iterator[Event]:
    """Yield the events from which the projections are built."""
    start: Any = connection.execute(_REPLAY_FROM).fetchall()[0][0]
    return replays.read_events(SqliteEventTable(connection), int(start))


def _counted(connection: apsw.Connection, progress: Progress | None) -> Iterator[Event]:
    (first, last) = next(iter(connection.execute(_SPAN)))
    return (progress or Progress()).track(events(connection), last - int(first) + 1)


def fingerprint(connection: apsw.Connection) -> dict[str, str]:
    """Hash the canonical dump of each projection, of the index tables, and of the totals."""
    hashes = {table: _hash(_rows(connection, table)) for table in projections.TABLES}
    derived = ("posting", "equal", "fact_facet", *outcome_totals.TABLES)
    hashes |= {name: _hash(_rows(connection, name)) for name in derived}
    return hashes | {"trigram": _hash(trigram_index.dump(connection))}


@contextmanager
def _one_transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends the transaction itself when the disk is full
            connection.execute("ROLLBACK")
        raise


def index_all(connection: apsw.Connection, progress: Progress | None = None) -> None:
    """Index every recorded fact that was not erased, inside the caller's transaction."""
    posting_table.clear(connection)
    waiting: dict[int, list[tuple[int, posting_table.Text]]] = {}
    held = 0
    log = SqliteEventTable(connection)
    moved = index_documents.last_moves(log)
    erased = index_documents.tombstones(log)
    last: dict[int, int] = {}
    blank: list[hash_index_table.Tombstone] = []
    for event in _counted(connection, progress):
        for scope_no, number, text in index_documents.documents(event, erased.get(event.seq, {})):
            if isinstance(text, index_documents.Tombstone):
                blank.append(hash_index_table.Tombstone(scope_no, last.get(scope_no, 0), number))
                waiting.setdefault(scope_no, []).append((segment.TOMBSTONE, b""))
            else:
                moved_seq, to = moved.get(number, (0, scope_no))
                # A later fact, which was never moved, may have the number of an erased one.
                index_scope = to if event.seq < moved_seq else scope_no
                waiting.setdefault(index_scope, []).append((number, text))
                last[index_scope] = number
            held += 1
        if held >= _AT_ONCE:
            _index(connection, waiting)
            held = 0
    _index(connection, waiting)
    hash_index_table.refill(connection, blank)
    trigram_index.fill(connection)
    connection.execute(_INDEX_NOW, (posting_table.VERSION,))


def texts_of(connection: apsw.Connection, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Read from the log the texts that some facts were indexed by, ordered by fact number."""
    if not numbers:
        return []
    bindings = (json_list(list(numbers)), fact_events.RECORDED)
    seqs: list[Any] = connection.execute(_RECORDED, bindings).fetchall()
    log = SqliteEventTable(connection)
    recorded = (event for (seq,) in seqs for event in replays.read_events(log, seq, seq))
    texts = _texts(recorded, set(numbers))
    missing = set(numbers) - texts.keys()
    if missing:  # rows from before the log are at the start of the replayed events
        texts |= _texts(
            takewhile(lambda event: event.type == legacy_rows.TYPE, events(connection)), missing
        )
    return sorted(texts.items())


def _texts(events: Iterable[Event], numbers: Set[int]) -> dict[int, str]:
    documents = (document for event in events for document in index_documents.documents(event, {}))
    return {number: str(text) for _, number, text in documents if number in numbers}


def _index(
    connection: apsw.Connection, waiting: dict[int, list[tuple[int, posting_table.Text]]]
) -> None:
    for scope_no, texts in waiting.items():
        posting_table.add(connection, scope_no, texts)
    waiting.clear()


def _rows(connection: apsw.Connection, table: str) -> Iterator[Any]:
    keys = connection.execute(
        "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
    ).fetchall()
    order = ", ".join(f'"{name}"' for (name,) in keys)
    yield from connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}')


def _hash(rows: Iterator[Any]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        plain = [item.hex() if isinstance(item, bytes) else item for item in row]
        digest.update(canonical(plain).encode() + b"\n")
    return digest.hexdigest()
