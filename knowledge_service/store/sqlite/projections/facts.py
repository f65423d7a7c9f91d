"""Applies new and changed facts. A change keeps the previous version with its span of knowledge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw

from kais import facts as kais_facts
from knowledge_service.domain.fact_fields import LISTS, NAMES
from knowledge_service.domain.facts import canonical, content_hash
from knowledge_service.event_log import fact_events
from knowledge_service.event_log.events import Event
from knowledge_service.event_log.fact_events import CHANGEABLE
from knowledge_service.store.sqlite.projections import facet_index, fact_columns
from knowledge_service.store.sqlite.projections.fact_columns import OwnColumns

Part = Mapping[str, Any]
Hashes = Sequence[tuple[bytes, bytes | None]]

_LIFECYCLE = OwnColumns._fields.index("lifecycle")
_TAG = "INSERT OR IGNORE INTO fact_tag(scope_no, tag, fact_no) VALUES(?, ?, ?)"
_UNTAG = "DELETE FROM fact_tag WHERE scope_no = ? AND tag = ? AND fact_no = ?"
_COUNT = "UPDATE scope SET live_facts = live_facts + ?, last_write_at = ? WHERE scope_no = ?"
_EVENT = "INSERT OR IGNORE INTO fact_event(fact_no, seq, op, undone) VALUES(?, ?, ?, ?)"
_UNDONE = "UPDATE fact_event SET undone = 1 WHERE op = ?"
_UNDONE_ONE = """UPDATE fact_event SET undone = 1 WHERE op = ?
  AND fact_no = (SELECT fact_no FROM fact WHERE id = ?)"""
_UNCONFIRM = "DELETE FROM confirmation WHERE fact_no = ? AND seq = ?"
_UNREVIEW = "DELETE FROM review WHERE fact_no = ? AND seq = ?"
_NUMBER = "SELECT fact_no FROM fact WHERE id = ?"
_COLUMNS = ", ".join(CHANGEABLE)
_NOW = f"SELECT fact_no, scope_no, {_COLUMNS} FROM fact WHERE id = ?"
_ADD_PAST = f"""INSERT INTO fact_past(fact_no, version, since, until, seq, until_seq, {_COLUMNS})
  SELECT fact_no, version, changed_at, ?, changed_seq, ?, {_COLUMNS} FROM fact WHERE fact_no = ?"""
_CHANGE = f"""UPDATE fact SET {", ".join(f"{name} = ?" for name in CHANGEABLE)},
  version = version + 1, changed_at = ?, changed_seq = ? WHERE fact_no = ?"""
_CONFIRM = "INSERT INTO confirmation(fact_no, at, seq, session, actor) VALUES(?, ?, ?, ?, ?)"
_REVIEW = """INSERT INTO review(seq, fact_no, decision, actor, actor_type, reason, at, edits)
  VALUES(?, ?, ?, ?, ?, ?, ?, ?)"""

_REVIEW_AGAIN = _REVIEW.replace("INSERT", "INSERT OR REPLACE", 1)


def recorded(connection: apsw.Connection, event: Event) -> None:
    """Write the facts of an event, which are all in the event's scope."""
    record(
        connection,
        event,
        [(content_hash(part), fact_events.key_hash_of(part)) for part in event.remaining_parts()],
    )


def record(connection: apsw.Connection, event: Event, hashes: Hashes) -> None:
    """Write facts with known (content, key) hashes, which are in the order of the parts."""
    record_all(connection, [(event, hashes)])


def record_all(connection: apsw.Connection, hashed_events: Sequence[tuple[Event, Hashes]]) -> None:
    """Write the facts of several events, each with their hashes."""
    rows: list[tuple[Any, ...]] = []
    events: list[tuple[int, int, int, int]] = []
    live: Counter[int | None] = Counter()
    for event, hashes in hashed_events:
        event_rows = _rows(event, hashes)
        rows += event_rows
        op = event.op  # reads every part
        events += [(row[0], event.seq, op, 0) for row in event_rows]
        live[event.scope_no] += sum(row[_LIFECYCLE] == "live" for row in event_rows)
    tagged = [
        (event.scope_no, part["no"], part["tags"])
        for event, _ in hashed_events
        for part in event.remaining_parts()
        if part["tags"]
    ]
    insert_rows(connection, rows)
    insert_fact_events(connection, events)
    insert_tags(connection, tagged)
    count_live(connection, live, hashed_events[-1][0].at)


def insert_rows(connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows made by `fact_columns.row`, and the facets of their data."""
    connection.executemany(fact_columns.INSERT, rows)
    facet_index.add(connection, map(fact_columns.data_of, rows))


def insert_fact_events(
    connection: apsw.Connection, events: Sequence[tuple[int, int, int, int]]
) -> None:
    """Map facts to events: (fact number, event number, operation, 1 if undone)."""
    connection.executemany(_EVENT, events)


def insert_tags(
    connection: apsw.Connection, tagged: Sequence[tuple[int | None, int, Sequence[str]]]
) -> None:
    """Insert the tags of facts, given by scope and number."""
    spelt = [
        (scope_no, kais_facts.normalize_tag(tag), fact_no)
        for scope_no, fact_no, tags in tagged
        for tag in tags
    ]
    if spelt:
        connection.executemany(_TAG, spelt)


def count_live(connection: apsw.Connection, live: Mapping[Any, int], at: int) -> None:
    """Add to the scopes' numbers of live facts."""
    for scope_no, added in live.items():
        connection.execute(_COUNT, (added, at, scope_no))


def _rows(event: Event, hashes: Hashes) -> list[tuple[Any, ...]]:
    scope_no, at, seq = event.scope_no, event.at, event.seq
    rows: list[tuple[Any, ...]] = []
    sources: dict[int, str] = {}  # facts of one call mostly share the object
    for part, (content, key) in zip(event.remaining_parts(), hashes, strict=True):
        source, lifecycle = part["source"], part.get("lifecycle", "live")
        source_json = sources.get(id(source))
        if source_json is None:
            source_json = sources[id(source)] = canonical(source)
        closed_at = None if lifecycle == "live" else at
        own_columns = OwnColumns(
            part["no"], part["fact"], scope_no, key, source["type"], lifecycle, at, closed_at,
            part.get("closed_reason"), event.actor if closed_at else None, content, at, seq,
            part.get("root"),
        )  # fmt: skip
        rows.append(fact_columns.row(own_columns, [part.get(name) for name in NAMES], source_json))
    return rows


def changed(connection: apsw.Connection, event: Event) -> None:
    """Set the columns of each part; a part without a new value creates no version."""
    counts: Counter[int] = Counter()
    for part in event.remaining_parts():
        row = _change(connection, event, part)
        if row:
            fact_no, scope_no, delta = row
            counts[scope_no] += delta
            undoes = part.get("undoes")
            connection.execute(_EVENT, (fact_no, event.seq, event.op, int(undoes is not None)))
            if undoes is not None:
                _undo(connection, part, fact_no)
            if event.type == fact_events.CONFIRMED:
                session = part.get("session")
                connection.execute(_CONFIRM, (fact_no, event.at, event.seq, session, event.actor))
            elif event.type == fact_events.REVIEWED:
                connection.execute(_REVIEW, _review(event, part, fact_no))
    for scope_no, delta in counts.items():
        connection.execute(_COUNT, (delta, event.at, scope_no))


def mark_undone(connection: apsw.Connection, part: Part) -> None:
    """Mark an operation as undone; with `alone`, for one of the facts that it recorded."""
    if part.get("alone"):
        connection.execute(_UNDONE_ONE, (part["undoes"], part["fact"]))
    else:
        connection.execute(_UNDONE, (part["undoes"],))


def _undo(connection: apsw.Connection, part: Part, fact_no: int) -> None:
    mark_undone(connection, part)
    if "unsaid" in part:
        connection.execute(_UNCONFIRM, (fact_no, part["unsaid"]))
        connection.execute(_UNREVIEW, (fact_no, part["unsaid"]))


def _change(connection: apsw.Connection, event: Event, part: Part) -> tuple[int, int, int] | None:
    row = next(iter(connection.execute(_NOW, (part["fact"],))), None)
    if row is None:
        return None
    fact_no, scope_no = int(row[0]), int(row[1])
    old = dict(zip(CHANGEABLE, row[2:], strict=True))
    values = {k: canonical(v) if k in LISTS else v for k, v in part.get("set", {}).items()}
    change = fact_events.compute_change(old, values)
    if change is None:
        return fact_no, scope_no, 0
    new = change.columns
    connection.execute(_ADD_PAST, (event.at, event.seq, fact_no))
    connection.execute(_CHANGE, (*(new[name] for name in CHANGEABLE), event.at, event.seq, fact_no))
    if new["tags"] != old["tags"]:
        _retag(connection, scope_no, fact_no, old["tags"], new["tags"])
    return fact_no, scope_no, change.live_delta


def _retag(connection: apsw.Connection, scope_no: int, fact_no: int, old: Any, new: Any) -> None:
    old_tags = fact_events.normalize_tags(json.loads(old))
    new_tags = fact_events.normalize_tags(json.loads(new))
    connection.executemany(
        _UNTAG, [(scope_no, tag, fact_no) for tag in sorted(old_tags - new_tags)]
    )
    connection.executemany(_TAG, [(scope_no, tag, fact_no) for tag in sorted(new_tags - old_tags)])


def _review(event: Event, part: Part, fact_no: int) -> tuple[Any, ...]:
    edits = part.get("edits")
    return (
        event.seq, fact_no, part["decision"], event.actor, part["actor_type"], part.get("reason"),
        event.at, None if edits is None else canonical(edits),
    )  # fmt: skip


def restated(connection: apsw.Connection, event: Event) -> None:
    """Write a review again without its edits, because the edited fact was erased."""
    for part in event.remaining_parts():
        numbers = connection.execute(_NUMBER, (part["fact"],)).fetchall()
        for (fact_no,) in numbers:
            # The event belongs to the fact's history, but undo does not revert it.
            connection.execute(_EVENT, (fact_no, event.seq, event.op, 1))
            if part["stands"]:
                row = (
                    part["seq"], fact_no, part["decision"], part["by"], part["actor_type"],
                    part.get("reason"), part["at"], "{}" if part.get("edited") else None,
                )  # fmt: skip
                connection.execute(_REVIEW_AGAIN, row)


EVENTS: Mapping[str, Callable[[apsw.Connection, Event], None]] = {
    fact_events.RECORDED: recorded,
    fact_events.RESTATED: restated,
    **dict.fromkeys(fact_events.CHANGES, changed),
}
