"""Copies the tables of an older file into the log, so that the log suffices for a replay.

It runs in the migration's own transaction. Afterwards the file is as a rebuild would make it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from knowledge_service.clock import Clock
from knowledge_service.event_log import legacy_rows
from knowledge_service.event_log.hash_chain import read_head
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite import event_table, projection_rebuild
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.projections import legacy_rows as projections_legacy_rows
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.uuid7 import Uuid7Generator

_FROM = "INSERT OR REPLACE INTO meta(key, value) VALUES('replay_from', ?)"
_KNOWN_SINCE = "UPDATE fact SET changed_at = coalesce(closed_at, recorded_at)"
_UNCOUNTED = "UPDATE scope SET docs = 0, total_length = 0"
_OLD_EVENTS = event_table.select_events(
    "event e", "WHERE e.type IN ('fact.recorded', 'fact.confirmed', 'fact.closed', 'link.made')"
)
# Operations from before this version of the log cannot be undone, and are entered as such.
_ENTER_OLD_EVENT = """INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone)
  SELECT fact_no, ?1, ?1, 1 FROM fact WHERE id IN (?2, ?3, ?4)"""
_WAS_LIVE = """INSERT OR IGNORE INTO fact_past(fact_no, version, since, until, seq, until_seq, tags,
    confidence, lifecycle, review, flags, expires_at, valid_from, valid_until)
  SELECT fact_no, version - 1, recorded_at, closed_at, 0, 0, tags, confidence, 'live', review,
    flags, expires_at, valid_from, ? FROM fact
  WHERE id = ? AND closed_at > recorded_at AND version > 1"""
_ACTOR = "migration"
# An arbitrary number of rows in one event, so that none of its payloads is huge.
_ROWS = 500


def backfill(connection: apsw.Connection, clock: Clock, progress: Progress) -> None:
    """Copy the rows that m001 left into the log, then replay."""
    connection.execute(_KNOWN_SINCE)
    connection.execute(_UNCOUNTED)
    for event in list(event_table.read_events(connection, _OLD_EVENTS)):
        for part in event.remaining_parts():
            connection.execute(
                _ENTER_OLD_EVENT, (event.seq, part.get("fact"), part.get("from"), part.get("to"))
            )
            if event.type == "fact.recorded":
                connection.execute(_WAS_LIVE, (part.get("valid_until"), part["fact"]))
    tx = Transaction(
        connection,
        read_head(SqliteEventTable(connection)),
        Uuid7Generator(),
        clock(),
        HashIndexTable(connection),
    )
    connection.execute(_FROM, (str(tx.head.seq + 1),))
    for table in projections_legacy_rows.TABLES:
        for rows in _batches(connection, table):
            tx.append(legacy_rows.TYPE, scope_no=None, actor=_ACTOR, parts=rows)
    projection_rebuild.replay(connection, progress)


def _batches(connection: apsw.Connection, table: str) -> Iterator[list[dict[str, Any]]]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    batch: list[dict[str, Any]] = []
    for row in cursor:
        names = [name for name, _ in cursor.get_description()]
        batch.append(legacy_rows.encode(table, dict(zip(names, row, strict=True))))
        if len(batch) == _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
