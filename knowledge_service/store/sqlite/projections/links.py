"""Links, aliases and sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apsw

from knowledge_service.domain.facts import canonical
from knowledge_service.event_log.events import Event
from knowledge_service.store.sqlite.projections import facts

_LINK = """INSERT INTO link(id, from_no, to_no, from_scope, to_scope, type, weight, data, actor,
  valid_from, valid_until, recorded_at)
  SELECT ?, a.fact_no, b.fact_no, a.scope_no, b.scope_no, ?, ?, ?, ?, ?, ?, ? FROM fact a, fact b
  WHERE a.id = ? AND b.id = ?"""
_UNLINK = "UPDATE link SET closed_at = ? WHERE id = ?"
_RELINK = "UPDATE link SET closed_at = NULL WHERE id = ?"
# With `undone` set, an event belongs to a fact's history, but undo does not revert it.
_EVENTS = """INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone, other_scope)
  SELECT from_no, ?1, ?2, ?3, to_scope FROM link WHERE id = ?5
  UNION ALL SELECT to_no, ?1, ?2, ?4, from_scope FROM link WHERE id = ?5"""
_ALIAS = """INSERT OR REPLACE INTO alias(scope_no, namespace, value, fact_no)
  SELECT ?, ?, ?, fact_no FROM fact WHERE id = ?"""
_ALIAS_EVENT = """INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone)
  SELECT fact_no, ?, ?, ? FROM fact WHERE id = ?"""
_UNALIAS = "DELETE FROM alias WHERE scope_no = ? AND namespace = ? AND value = ?"
_TAKE = """INSERT INTO sequence(scope_no, namespace, prefix, last) VALUES(?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET last = excluded.last"""


def _linked(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        data = part.get("data")
        connection.execute(
            _LINK,
            (
                part["id"], part["type"], part.get("weight"),
                None if data is None else canonical(data), event.actor, part.get("valid_from"),
                part.get("valid_until"), event.at, part["from"], part["to"],
            ),
        )  # fmt: skip
        _enter(connection, event, part)


def _unlinked(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_UNLINK, (event.at, part["id"]))
        _enter(connection, event, part)


def _relinked(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_RELINK, (part["id"],))
        _enter(connection, event, part)


def _enter(connection: apsw.Connection, event: Event, part: Mapping[str, Any]) -> None:
    is_undo = "undoes" in part
    of = part.get("of")
    undone = (
        int(is_undo or of not in (None, part["from"])),
        int(is_undo or (event.is_link_alone if of is None else of != part["to"])),
    )
    connection.execute(_EVENTS, (event.seq, event.op, *undone, part["id"]))
    if is_undo:
        facts.mark_undone(connection, part)


def _named(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        key = (event.scope_no, part["namespace"], part["value"])
        connection.execute(_ALIAS, (*key, part["fact"]))
        _enter_name(connection, event, part)


def _unnamed(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_UNALIAS, (event.scope_no, part["namespace"], part["value"]))
        if "fact" in part:
            _enter_name(connection, event, part)


def _restated(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        connection.execute(_ALIAS_EVENT, (event.seq, event.op, 1, part["fact"]))


def _enter_name(connection: apsw.Connection, event: Event, part: Mapping[str, Any]) -> None:
    is_undo, is_act = "undoes" in part, "of" in part
    holders = [part["fact"], *([part["was"]] if is_act and part.get("was") else [])]
    for holder in holders:
        undone = int(is_undo or not is_act)
        connection.execute(_ALIAS_EVENT, (event.seq, event.op, undone, holder))
    if is_undo and is_act:
        facts.mark_undone(connection, part)


def _taken(connection: apsw.Connection, event: Event) -> None:
    for part in event.remaining_parts():
        key = (event.scope_no, part["namespace"], part["prefix"])
        connection.execute(_TAKE, (*key, part["last"]))


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    "link.made": _linked,
    "link.closed": _unlinked,
    "link.restored": _relinked,
    "alias.set": _named,
    "alias.removed": _unnamed,
    "alias.restated": _restated,
    "sequence.taken": _taken,
}
