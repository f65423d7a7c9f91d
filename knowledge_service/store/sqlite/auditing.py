"""The audit: changes from the log and recalls from their receipts, merged, the newest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apsw

from knowledge_client.models import AuditEntry
from knowledge_service.domain.visibility import PLATFORM, Reach, View
from knowledge_service.event_log import times
from knowledge_service.ports import Acts, AuditPlace
from knowledge_service.store.sqlite import changes

# So much is looked through for one page; a page that ends there is short and has a cursor.
_LOOKED_THROUGH = 20_000

_EVENTS = """SELECT seq, scope_no, type, actor, at FROM event WHERE seq < ?
  ORDER BY seq DESC LIMIT ?"""
_PAYLOAD = "SELECT salt, bytes FROM payload WHERE seq = ?"
_RECEIPTS = """SELECT at, id, principal, observer_no, run_id FROM receipt WHERE (at, id) < (?, ?)
  ORDER BY at DESC, id DESC LIMIT ?"""
_BODY = "SELECT body FROM receipt WHERE id = ?"
_SCOPES = "SELECT scope_no, path FROM scope WHERE retired_at IS NULL"
_END = 2**62

# What a row becomes is found out when it comes onto the page: most never do.
_Tell = Callable[[], AuditEntry]


class Audit(changes.ChangeLog):
    """The `ChangeStore` port."""

    def audit(self, reaches: Sequence[Reach], before: AuditPlace | None, *, limit: int) -> Acts:
        """Read both backwards and merge by time."""
        place = before or AuditPlace(_END, _END, "")
        with self._readers.browsing() as connection:
            scopes = {
                number: path
                for number, path in connection.execute(_SCOPES)
                if any(reach.covers(path) for reach in reaches)
            }
            acts = _changes(connection, place, scopes, reaches)
            recalls = _recalls(connection, place, scopes)
            return _merge(acts, recalls, place, limit)


def _changes(
    connection: apsw.Connection,
    place: AuditPlace,
    scopes: dict[int, str],
    reaches: Sequence[Reach],
) -> list[tuple[int, int, _Tell | None]]:
    whole = View(PLATFORM, tuple(reaches))
    everything = whole.sees_all_below(PLATFORM)

    def is_told(scope_no: int | None, kind: str) -> bool:
        path = scopes.get(scope_no) if scope_no is not None else None
        if path is None:
            return scope_no is None and everything
        return kind not in changes.OF_WHO_CAME_FIRST or whole.sees_all_below(path)

    return [
        (row[4], row[0], partial(_change, connection, row, scopes) if is_told(*row[1:3]) else None)
        for row in connection.execute(_EVENTS, (place.event, _LOOKED_THROUGH))
    ]


def _change(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: dict[int, str]
) -> AuditEntry:
    seq, scope_no, kind, actor, at = row
    payload: Any = connection.execute(_PAYLOAD, (seq,)).fetchall() or [(None, None)]
    named = changes.names(connection, (*row, *payload[0]), scopes)
    return AuditEntry(
        at=times.from_us(at), actor=actor, action=kind, scope=scopes.get(scope_no),
        facts=tuple(dict.fromkeys(named.facts)), run=named.run,
    )  # fmt: skip


def _recalls(
    connection: apsw.Connection, place: AuditPlace, scopes: dict[int, str]
) -> list[tuple[int, str, _Tell | None]]:
    asked = (place.at_us, place.receipt, _LOOKED_THROUGH)
    return [
        (row[0], row[1], partial(_recall, connection, row, scopes) if row[3] in scopes else None)
        for row in connection.execute(_RECEIPTS, asked)
    ]


def _recall(
    connection: apsw.Connection, row: tuple[Any, ...], scopes: dict[int, str]
) -> AuditEntry:
    at, receipt_id, principal, observer_no, run_id = row
    bodies: list[Any] = connection.execute(_BODY, (receipt_id,)).fetchall()
    said: dict[str, Any] = json.loads(bodies[0][0])
    other = said.get("acted_by")
    return AuditEntry(
        at=times.from_us(at), actor=other or principal, action="recall",
        scope=scopes[observer_no], facts=tuple(said["facts"]), run=run_id,
        receipt=receipt_id, on_behalf_of=principal if other else None,
    )  # fmt: skip


def _merge(
    acts: list[tuple[int, int, _Tell | None]],
    recalls: list[tuple[int, str, _Tell | None]],
    place: AuditPlace,
    limit: int,
) -> Acts:
    """Take the newer of both until the page is full or one of them was looked through."""
    entries: list[AuditEntry] = []
    i = j = 0
    while len(entries) < limit and (i < len(acts) or j < len(recalls)):
        # Where one side ended because enough was looked through, the other must not run ahead.
        if (i == len(acts) == _LOOKED_THROUGH) or (j == len(recalls) == _LOOKED_THROUGH):
            break
        if j == len(recalls) or (i < len(acts) and acts[i][0] >= recalls[j][0]):
            at, seq, tell = acts[i]
            i += 1
            place = AuditPlace(seq, place.at_us, place.receipt)
        else:
            at, receipt_id, tell = recalls[j]
            j += 1
            place = AuditPlace(place.event, at, receipt_id)
        if tell:
            entries.append(tell())
    # What the caller does not see is nothing to go on for.
    is_left = any(act[2] for act in acts[i:]) or any(recall[2] for recall in recalls[j:])
    is_more = is_left or _LOOKED_THROUGH in (len(acts), len(recalls))
    return Acts(tuple(entries), place if is_more else None)
