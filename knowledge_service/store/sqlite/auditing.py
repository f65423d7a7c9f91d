"""The audit: changes from the log and recalls from their receipts, merged, the newest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from knowledge_client.models import AuditEntry
from knowledge_service.domain.visibility import PLATFORM, Reach
from knowledge_service.ports import Acts, AuditPlace
from knowledge_service.store.sqlite import changes, times

# So much is looked through for one page; a page that ends there is short and has a cursor.
_LOOKED_THROUGH = 20_000

_EVENTS = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, p.salt, p.bytes
  FROM event e LEFT JOIN payload p USING(seq) WHERE e.seq < ? ORDER BY e.seq DESC LIMIT ?"""
_RECEIPTS = """SELECT r.at, r.id, r.principal, r.observer_no, r.run_id, r.body FROM receipt r
  WHERE (r.at, r.id) < (?, ?) ORDER BY r.at DESC, r.id DESC LIMIT ?"""
_SCOPES = "SELECT scope_no, path FROM scope WHERE retired_at IS NULL"
_END = 2**62

_Entry = tuple[int, AuditEntry]


class Audit(changes.ChangeLog):
    """The `ChangeStore` port."""

    def audit(self, reaches: Sequence[Reach], before: AuditPlace | None, *, limit: int) -> Acts:
        """Read both backwards and merge by time."""
        place = before or AuditPlace(_END, _END, "")
        with self._readers.snapshot() as connection:
            scopes = {
                number: path
                for number, path in connection.execute(_SCOPES)
                if any(reach.covers(path) for reach in reaches)
            }
            everything = any(reach.subtree and reach.scope == PLATFORM for reach in reaches)
            acts = _changes(connection, place, scopes, everything=everything)
            recalls = _recalls(connection, place, scopes)
            return _merge(acts, recalls, place, limit)


def _changes(
    connection: apsw.Connection,
    place: AuditPlace,
    scopes: dict[int, str],
    *,
    everything: bool,
) -> list[tuple[int, int, AuditEntry | None]]:
    found: list[tuple[int, int, AuditEntry | None]] = []
    for row in connection.execute(_EVENTS, (place.event, _LOOKED_THROUGH)):
        seq, scope_no, kind, actor, at = row[:5]
        entry = None
        if scope_no in scopes or (scope_no is None and everything):
            named = changes.names(connection, row, scopes)
            entry = AuditEntry(
                at=times.from_us(at), actor=actor, action=kind, scope=scopes.get(scope_no),
                facts=tuple(dict.fromkeys(named.facts)), run=named.run,
            )  # fmt: skip
        found.append((at, seq, entry))
    return found


def _recalls(
    connection: apsw.Connection, place: AuditPlace, scopes: dict[int, str]
) -> list[tuple[int, str, AuditEntry | None]]:
    found: list[tuple[int, str, AuditEntry | None]] = []
    asked = (place.at_us, place.receipt, _LOOKED_THROUGH)
    for at, receipt_id, principal, observer_no, run_id, body in connection.execute(
        _RECEIPTS, asked
    ):
        entry = None
        if observer_no in scopes:
            said: dict[str, Any] = json.loads(body)
            other = said.get("acted_by")
            entry = AuditEntry(
                at=times.from_us(at), actor=other or principal, action="recall",
                scope=scopes[observer_no], facts=tuple(said["facts"]), run=run_id,
                receipt=receipt_id, on_behalf_of=principal if other else None,
            )  # fmt: skip
        found.append((at, receipt_id, entry))
    return found


def _merge(
    acts: list[tuple[int, int, AuditEntry | None]],
    recalls: list[tuple[int, str, AuditEntry | None]],
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
            at, seq, entry = acts[i]
            i += 1
            place = AuditPlace(seq, place.at_us, place.receipt)
        else:
            at, receipt_id, entry = recalls[j]
            j += 1
            place = AuditPlace(place.event, at, receipt_id)
        if entry:
            entries.append(entry)
    # What the caller does not see is nothing to go on for.
    is_left = any(act[2] for act in acts[i:]) or any(recall[2] for recall in recalls[j:])
    is_more = is_left or _LOOKED_THROUGH in (len(acts), len(recalls))
    return Acts(tuple(entries), place if is_more else None)
