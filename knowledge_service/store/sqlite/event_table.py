"""The tables of the event log: `event` and `payload`. No other module reads or writes payloads.

Repositories choose events by their own tables: `select_events` completes their query, and
`read_events` runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from knowledge_service.event_log import event_payloads, fact_events
from knowledge_service.event_log.event_payloads import StoredPayload
from knowledge_service.event_log.events import Event, EventRow, LogEntry
from knowledge_service.event_log.store_ports import NEWEST

_COLUMNS = "seq, scope_no, type, actor, at, payload_hash, prev_hash"
_NEWEST = f"SELECT {_COLUMNS} FROM event ORDER BY seq DESC LIMIT 1"
_INSERT = f"INSERT INTO event({_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?)"
_INSERT_PAYLOAD = "INSERT INTO payload(seq, salt, bytes) VALUES(?, ?, ?)"
_ENTRIES = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, e.payload_hash, e.prev_hash,
  p.salt, p.bytes FROM event e LEFT JOIN payload p USING(seq)"""
_SPAN = f"{_ENTRIES} WHERE e.seq >= ? AND e.seq <= ? ORDER BY e.seq"
_OF_TYPE = f"{_ENTRIES} WHERE e.type = ? ORDER BY e.seq"
# The index of erasures is partial: SQLite uses it when the statement names the type.
_ERASURES = f"{_ENTRIES} WHERE e.type = 'fact.erased' ORDER BY e.seq"
_PAYLOAD = "SELECT salt, bytes FROM payload WHERE seq = ?"
_STRAY = "SELECT seq FROM payload WHERE seq NOT IN (SELECT seq FROM event)"
_REPLACE = "UPDATE payload SET salt = ?, bytes = ? WHERE seq = ?"
_DELETE = "DELETE FROM payload WHERE seq = ?"


class SqliteEventTable:
    """The `LogTable` port over one connection."""

    read_errors: tuple[type[Exception], ...] = (apsw.CorruptError,)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def entries(self, first: int = 1, last: int = NEWEST) -> Iterator[LogEntry]:
        """Return the events from `first` to `last`, in order."""
        return map(_entry, self._connection.execute(_SPAN, (first, last)))

    def entries_of_type(self, kind: str) -> Iterator[LogEntry]:
        """Return the events of a type, in order."""
        if kind == fact_events.ERASED:
            return map(_entry, self._connection.execute(_ERASURES))
        return map(_entry, self._connection.execute(_OF_TYPE, (kind,)))

    def stray_payloads(self) -> Iterable[int]:
        """Return the numbers of payloads without an event."""
        return (int(str(seq)) for (seq,) in self._connection.execute(_STRAY))

    def last_row(self) -> EventRow | None:
        """Return the newest event; None in an empty log."""
        rows: list[Any] = self._connection.execute(_NEWEST).fetchall()
        return EventRow(*rows[0]) if rows else None

    def insert(self, entries: Sequence[LogEntry]) -> None:
        """Store events and their payloads, with one statement for each table."""
        self._connection.executemany(_INSERT, [entry.row for entry in entries])
        payloads = [
            (row.seq, payload.salt, payload.data) for row, payload in entries if payload is not None
        ]
        self._connection.executemany(_INSERT_PAYLOAD, payloads)

    def replace_payload(self, seq: int, payload: StoredPayload) -> None:
        """Replace an event's payload."""
        self._connection.execute(_REPLACE, (payload.salt, payload.data, seq))

    def delete_payload(self, seq: int) -> None:
        """Delete an event's payload."""
        self._connection.execute(_DELETE, (seq,))


def select_events(tables: str, conditions: str) -> str:
    """Return a query for `read_events`; `tables` must include `event e`, `conditions` may sort."""
    columns = "e.seq, e.scope_no, e.type, e.actor, e.at, p.salt, p.bytes"
    return f"SELECT {columns} FROM {tables} LEFT JOIN payload p ON p.seq = e.seq {conditions}"


def read_events(
    connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()
) -> Iterator[Event]:
    """Run a query of `select_events`; a completely erased event has the single part None."""
    rows: Any = connection.execute(sql, bindings)
    for seq, scope_no, kind, actor, at, salt, data in rows:
        parts = (None,) if salt is None else event_payloads.decode(StoredPayload(salt, data))
        yield Event(seq, scope_no, kind, actor, at, parts)


def read_parts(connection: apsw.Connection, seq: int) -> list[Mapping[str, Any]]:
    """Return the parts of an event that were not erased."""
    rows: Any = connection.execute(_PAYLOAD, (seq,))
    return [
        part
        for salt, data in rows
        for part in event_payloads.decode(StoredPayload(salt, data))
        if part is not None
    ]


def _entry(columns: Sequence[Any]) -> LogEntry:
    *row, salt, data = columns
    return LogEntry(EventRow(*row), None if salt is None else StoredPayload(salt, data))
