"""`fact.erased`: deletes a fact from the tables. The caller erases the index and the payloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import apsw

from knowledge_service.event_log.events import Event
from knowledge_service.event_log.fact_events import ERASED, normalize_tags
from knowledge_service.store.sqlite.projections import facet_index

_FIND = "SELECT fact_no, scope_no, lifecycle = 'live' FROM fact WHERE id = ?"
_TAGS = "SELECT scope_no, tags FROM fact WHERE fact_no = ?"
_UNTAG = "DELETE FROM fact_tag WHERE scope_no = ? AND tag = ? AND fact_no = ?"
_DELETE_FACT = (
    "DELETE FROM fact_past WHERE fact_no = ?1",
    "DELETE FROM fact_event WHERE fact_no = ?1",
    "DELETE FROM alias WHERE fact_no = ?1",
    "DELETE FROM link WHERE from_no = ?1 OR to_no = ?1",
    "DELETE FROM confirmation WHERE fact_no = ?1",
    "DELETE FROM review WHERE fact_no = ?1",
    "DELETE FROM promotion WHERE origin_no = ?1 OR copy_no = ?1",
    "DELETE FROM usage WHERE fact_no = ?1",
    "DELETE FROM served WHERE fact_no = ?1",
    (
        "DELETE FROM vector WHERE fact_no = ?1"
        " AND scope_no = (SELECT scope_no FROM fact WHERE fact_no = ?1)"
    ),
    "DELETE FROM fact WHERE fact_no = ?1",
)
# These events can no longer be replayed, not even for their other facts.
_REMAINS = "DELETE FROM fact_event WHERE seq = ?"
_DETACH = "DELETE FROM fact_event WHERE seq = ? AND fact_no = ?"
_COUNT = "UPDATE scope SET live_facts = live_facts - ?, last_write_at = ? WHERE scope_no = ?"


def _erased(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        rows: Any = connection.execute(_FIND, (part["fact"],)).fetchall()
        for fact_no, scope_no, is_live in rows:
            _untag(connection, fact_no)
            facet_index.remove(connection, fact_no)
            for statement in _DELETE_FACT:
                connection.execute(statement, (fact_no,))
            connection.execute(_COUNT, (is_live, event.at, scope_no))
        connection.executemany(_REMAINS, [(seq,) for seq in part["events"]])
        connection.executemany(_DETACH, part.get("detached", ()))
        connection.execute(_COUNT, (0, event.at, part["scope"]))


def _untag(connection: apsw.Connection, fact_no: int) -> None:
    for scope_no, tags in connection.execute(_TAGS, (fact_no,)).fetchall():
        spelt = normalize_tags(json.loads(str(tags)))
        connection.executemany(_UNTAG, [(scope_no, tag, fact_no) for tag in sorted(spelt)])


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {ERASED: _erased}
