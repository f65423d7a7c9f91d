"""Copies of facts one level up, and their taking back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import apsw

from knowledge_service.domain.facts import canonical
from knowledge_service.store.sqlite.projections.event import Event

_MADE = """INSERT INTO promotion(id, origin_no, copy_no, rule, evidence, actor, at)
  SELECT ?, a.fact_no, b.fact_no, ?, ?, ?, ? FROM fact a, fact b WHERE a.id = ? AND b.id = ?"""
_UNDONE = "UPDATE promotion SET undone_at = ? WHERE id = ?"
_REDONE = "UPDATE promotion SET undone_at = NULL WHERE id = ?"
_EVENTS = """INSERT OR IGNORE INTO fact_event(fact_no, seq)
  SELECT fact_no, ? FROM fact WHERE id IN (?, ?)"""


def _made(connection: apsw.Connection, event: Event) -> None:
    for part in event.known():
        connection.execute(
            _MADE,
            (
                part["id"], part["rule"], canonical(part["evidence"]), event.actor, event.at,
                part["origin"], part["copy"],
            ),
        )  # fmt: skip
        connection.execute(_EVENTS, (event.seq, part["origin"], part["copy"]))


def _undone(connection: apsw.Connection, event: Event) -> None:
    for part in event.known():
        connection.execute(_UNDONE, (event.at, part["id"]))
        connection.execute(_EVENTS, (event.seq, part["origin"], part["copy"]))


def _redone(connection: apsw.Connection, event: Event) -> None:
    for part in event.known():
        connection.execute(_REDONE, (part["id"],))
        connection.execute(_EVENTS, (event.seq, part["origin"], part["copy"]))


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    "promotion.made": _made,
    "promotion.undone": _undone,
    "promotion.redone": _redone,
}
