"""A fact's versions and events, read in one snapshot, with visible references only."""

from __future__ import annotations

from typing import Any

import apsw

from knowledge_client.models import History, HistoryEntry
from knowledge_service.domain import fact_fields
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import fact_events, legacy_rows, times
from knowledge_service.store.sqlite import event_table
from knowledge_service.store.sqlite.repositories import base, fact_rows

_BY_ID = f"{fact_rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
_BY_ID_AS_OF = f"{fact_rows.select_as_of('?2')} WHERE f.id = ?1"
_SINCE = "SELECT since FROM fact_past WHERE fact_no = ? AND since < until ORDER BY version"
_CHANGED = "SELECT changed_at FROM fact WHERE fact_no = ?"
_EVENTS = event_table.select_events(
    "fact_event x JOIN event e USING(seq)", "WHERE x.fact_no = ? ORDER BY x.seq"
)
_VISIBLE_EVENTS = event_table.select_events(
    """(SELECT 0 AS scope_no UNION ALL SELECT value FROM json_each(?2)) s
    CROSS JOIN fact_event x ON x.fact_no = ?1 AND x.other_scope = s.scope_no
    CROSS JOIN event e USING(seq)""",
    "ORDER BY x.seq",
)
_SCOPE = """SELECT s.path, f.review FROM fact f JOIN scope s USING(scope_no)
  WHERE f.id = ? AND s.retired_at IS NULL"""
_TIMES = fact_fields.TIMES | {"closed_at"}
_FACT_KEYS = ("from", "to", "origin", "copy", "was")


def history(connection: apsw.Connection, fact_id: str, view: View) -> History | None:
    """Return a visible fact's history; None when it is not visible."""
    row: Any = next(iter(connection.execute(_BY_ID, (fact_id,))), None)
    if row is None or not view.can_read_fact(row[fact_rows.SCOPE], fact_rows.fact(row).review):
        return None
    number = row[fact_rows.NUMBER]
    moments: list[Any] = [at for (at,) in connection.execute(_SINCE, (number,))]
    moments += [at for (at,) in connection.execute(_CHANGED, (number,))]
    versions = [next(fact_rows.facts(connection, _BY_ID_AS_OF, (fact_id, at))) for at in moments]
    return History(
        fact_id=fact_id,
        versions=tuple(versions),
        known_from=tuple(times.from_us(at) for at in moments),
        entries=tuple(_entries(connection, number, fact_id, view)),
    )


def _entries(
    connection: apsw.Connection, number: int, fact_id: str, view: View
) -> list[HistoryEntry]:
    entries = []
    scopes = base.scope_filter(view, base.visible_scopes(connection, view, None)).scopes
    events = (
        event_table.read_events(connection, _EVENTS, (number,))
        if scopes is None
        else event_table.read_events(connection, _VISIBLE_EVENTS, (number, scopes))
    )
    for event in events:
        if event.type == legacy_rows.TYPE:
            continue
        for part in event.remaining_parts():
            named_facts = [part[name] for name in _FACT_KEYS if name in part]
            if part.get("fact") == fact_id or fact_id in named_facts:
                visible_facts = _visible(connection, named_facts, fact_id, view)
                if not visible_facts and "fact" not in part and set(named_facts) != {fact_id}:
                    continue  # an event about facts that the reader may not see
                is_restated = event.type == fact_events.RESTATED
                entries.append(
                    HistoryEntry(
                        type="fact.reviewed" if is_restated else event.type,
                        actor=part["by"] if is_restated else event.actor,
                        at=times.from_us(part["at"] if is_restated else event.at),
                        reason=_reason(part),
                        set=_readable(part.get("set", {})),
                        facts=visible_facts,
                    )
                )
    return entries


def _reason(part: Any) -> str | None:
    reason = part.get("reason") or part.get("set", {}).get("closed_reason")
    return None if reason is None else str(reason)


def _readable(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: times.from_us(value).isoformat() if name in _TIMES and value is not None else value
        for name, value in values.items()
    }


def _visible(
    connection: apsw.Connection, fact_ids: list[str], fact_id: str, view: View
) -> tuple[str, ...]:
    visible_ids = []
    for other_id in dict.fromkeys(fact_ids):
        scope_and_review: Any = next(iter(connection.execute(_SCOPE, (other_id,))), None)
        if (
            other_id != fact_id
            and scope_and_review is not None
            and view.can_read_fact(*scope_and_review)
        ):
            visible_ids.append(other_id)
    return tuple(visible_ids)
