"""`fact.erased`: what a fact left in the tables goes. The index and the payloads go beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_service.store.event import Event

_FIND = "SELECT fact_no, scope_no, lifecycle = 'live' FROM fact WHERE id = ?"
_GONE = (
    "DELETE FROM fact_tag WHERE fact_no = ?1",
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
# Of these events nothing can be replayed any more, for the other facts in them neither.
_NOTHING_LEFT = "DELETE FROM fact_event WHERE seq = ?"
_COUNT = "UPDATE scope SET live_facts = live_facts - ?, last_write_at = ? WHERE scope_no = ?"


def _erased(connection: apsw.Connection, event: Event) -> None:
    for part in event.known():
        for fact_no, scope_no, is_live in connection.execute(_FIND, (part["fact"],)).fetchall():
            for statement in _GONE:
                connection.execute(statement, (fact_no,))
            connection.execute(_COUNT, (is_live, event.at, scope_no))
        connection.executemany(_NOTHING_LEFT, [(seq,) for seq in part["events"]])
        connection.execute(_COUNT, (0, event.at, part["scope"]))


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {"fact.erased": _erased}
