"""Promotions of facts, and their undoing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apsw

from knowledge_service.domain.facts import canonical
from knowledge_service.event_log.events import Event
from knowledge_service.store.sqlite.projections import facts

_INSERT = """INSERT INTO promotion(id, origin_no, copy_no, origin_scope, rule, evidence, actor, at)
  SELECT ?, a.fact_no, b.fact_no, a.scope_no, ?, ?, ?, ? FROM fact a, fact b
  WHERE a.id = ? AND b.id = ?"""
_UNDONE = "UPDATE promotion SET undone_at = ? WHERE id = ?"
_REDONE = "UPDATE promotion SET undone_at = NULL WHERE id = ?"
_EVENTS = """INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone, other_scope)
  SELECT f.fact_no, ?1, ?2, ?3, coalesce(o.scope_no, 0) FROM fact f
  LEFT JOIN fact o ON o.id = iif(f.id = ?4, ?5, ?4) WHERE f.id IN (?4, ?5)"""


def _made(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(
            _INSERT,
            (
                part["id"], part["rule"], canonical(part["evidence"]), event.actor, event.at,
                part["origin"], part["copy"],
            ),
        )  # fmt: skip
        _enter(connection, event, part)


def _undone(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_UNDONE, (event.at, part["id"]))
        _enter(connection, event, part)


def _redone(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_REDONE, (part["id"],))
        _enter(connection, event, part)


def _enter(connection: apsw.Connection, event: Event, part: Mapping[str, Any]) -> None:
    is_undo = "undoes" in part
    ends = (part["origin"], part["copy"])
    connection.execute(_EVENTS, (event.seq, event.op, int(is_undo), *ends))
    if is_undo:
        facts.mark_undone(connection, part)


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    "promotion.made": _made,
    "promotion.undone": _undone,
    "promotion.redone": _redone,
}
