"""Where erased facts stood in the log: their places in the index are kept, as tombstones.

`fact.erased` names the event and the part that recorded the fact. Of facts that were erased before
it did so the index has no tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from knowledge_service.event_log import event_payloads
from knowledge_service.store.sqlite.projections import adoption

_OF_TYPE = """SELECT e.seq, e.scope_no, p.salt, p.bytes FROM event e JOIN payload p USING(seq)
  WHERE e.type = ? ORDER BY e.seq"""
_ERASED = _OF_TYPE.replace("?", "'fact.erased'")  # by its index


@dataclass(frozen=True)
class Tombstone:
    """An erased fact: the scope that it was in, and its number."""

    scope_no: int
    fact_no: int


def by_event(connection: apsw.Connection) -> Mapping[int, Mapping[int, Tombstone]]:
    """Return the tombstones by the event, and the place of the part in it, of their facts."""
    emptied = _emptied(connection)
    found: dict[int, dict[int, Tombstone]] = {}
    rows: list[Any] = connection.execute(_ERASED).fetchall()
    for seq, _, salt, data in rows:
        for part in event_payloads.decode(event_payloads.StoredPayload(salt, data)):
            if part is None or "recorded" not in part:
                continue
            if emptied.get(part["scope"], 0) < seq:
                event, place = part["recorded"]
                tombstone = Tombstone(part["scope"], part["number"])
                found.setdefault(event, {})[place] = tombstone
    return found


def _emptied(connection: apsw.Connection) -> dict[int, int]:
    """Return when scopes were emptied last, because their facts moved."""
    found: dict[int, int] = {}
    rows: list[Any] = connection.execute(_OF_TYPE, (adoption.ADOPTED,)).fetchall()
    for seq, _, salt, data in rows:
        for part in event_payloads.decode(event_payloads.StoredPayload(salt, data)):
            if part and part["from"] is not None:
                found[part["from"]] = seq
    return found
