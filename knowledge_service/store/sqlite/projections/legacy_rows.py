"""`row.kept`: a row of a table from before the log alone sufficed for a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apsw

from knowledge_service.event_log import legacy_rows
from knowledge_service.event_log.events import Event
from knowledge_service.store.sqlite import event_table
from knowledge_service.store.sqlite.projections import facet_index

TABLES = (
    "scope", "principal", "fact", "fact_tag", "fact_event",
    "fact_past", "alias", "sequence", "link",
    "confirmation", "review", "promotion", "run", "episode", "extraction",
)  # fmt: skip
"""The tables with such rows, in an order in which rows can be written."""


# Tables that had no realm then. It is taken from the rows of runs, which are written first.
_OF_RUNS = ("episode", "extraction")
_REALM = "SELECT realm_no FROM run WHERE run_id = ?"
_HAS_REALMS = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'realm_no'"
# Columns of scopes that rows did not have then. They are taken from the rows of facts, which are
# written first.
_SCOPES: Mapping[str, Mapping[str, str]] = {
    "link": {"from_scope": "from_no", "to_scope": "to_no"},
    "promotion": {"origin_scope": "origin_no"},
}
_SCOPE = "SELECT scope_no FROM fact WHERE fact_no = ?"
_HAS_EVENT_SCOPES = "SELECT 1 FROM pragma_table_info('fact_event') WHERE name = 'other_scope'"
_LINK_MADE = event_table.select_events("event e", "WHERE e.seq = ? AND e.type = 'link.made'")
_OTHER_END = "SELECT scope_no FROM fact WHERE id IN (?2, ?3) AND fact_no <> ?1"
_HAS_SCOPES = "SELECT 1 FROM pragma_table_info('link') WHERE name = 'to_scope'"


def _apply(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        table, row = part["table"], legacy_rows.decode(part)
        if table not in TABLES:
            raise ValueError(
                f"event {event.seq} keeps a row of {table!r}, which is not a projection"
            )
        if table == "fact":
            row["changed_seq"] = event.seq
        if table in _OF_RUNS and _has_realms(connection, table):
            row["realm_no"] = next(iter(connection.execute(_REALM, (row["run_id"],))))[0]
        if table == "fact_event" and _has_event_scopes(connection):
            row["other_scope"] = _other_scope(connection, row)
        if table in _SCOPES and _has_scopes(connection):
            for name, number in _SCOPES[table].items():
                row[name] = next(iter(connection.execute(_SCOPE, (row[number],))))[0]
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        connection.execute(f'INSERT INTO "{table}"({names}) VALUES({marks})', tuple(row.values()))
        facet_index.add(connection, [_data_of(row)] if table == "fact" else [])


def _has_realms(connection: apsw.Connection, table: str) -> bool:
    """Return whether schema 9 is applied: migration 2 replays rows before it."""
    return any(True for _ in connection.execute(_HAS_REALMS, (table,)))


def _has_scopes(connection: apsw.Connection) -> bool:
    """Return whether schema 11 is applied: migration 2 replays rows before it."""
    return any(True for _ in connection.execute(_HAS_SCOPES))


def _data_of(row: Mapping[str, Any]) -> facet_index.DataOfFact:
    return row["scope_no"], row["fact_no"], row.get("schema"), row.get("data")


def _has_event_scopes(connection: apsw.Connection) -> bool:
    """Return whether schema 14 is applied: migration 2 replays rows before it."""
    return any(True for _ in connection.execute(_HAS_EVENT_SCOPES))


def _other_scope(connection: apsw.Connection, row: Mapping[str, Any]) -> int:
    """Return the scope of the fact at the other end of a link; 0 if the event created none."""
    for event in event_table.read_events(connection, _LINK_MADE, (row["seq"],)):
        for part in event.remaining_parts():
            ends = (row["fact_no"], part["from"], part["to"])
            for (scope_no,) in connection.execute(_OTHER_END, ends):
                return int(scope_no)
    return 0


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {legacy_rows.TYPE: _apply}
