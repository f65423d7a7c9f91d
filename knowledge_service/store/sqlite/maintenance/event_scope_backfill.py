"""Fills `fact_event.other_scope` in an older file, as a replay would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from knowledge_service.clock import Clock
from knowledge_service.event_log import event_payloads
from knowledge_service.startup_progress import Progress

_REPLAY_FROM = "coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'replay_from'), 1)"
_EVENTS = f"""SELECT e.seq, p.salt, p.bytes FROM event e JOIN payload p USING(seq)
  WHERE e.seq >= {_REPLAY_FROM}
  AND e.type IN ('link.made', 'link.closed', 'link.restored',
    'promotion.made', 'promotion.undone', 'promotion.redone') ORDER BY e.seq"""
_OLD_EVENTS = f"""SELECT e.seq, p.salt, p.bytes FROM event e JOIN payload p USING(seq)
  WHERE e.seq < {_REPLAY_FROM} AND e.type = 'link.made' ORDER BY e.seq"""
_FILL = """UPDATE fact_event SET other_scope = (SELECT scope_no FROM fact WHERE id = ?3)
  WHERE fact_no = (SELECT fact_no FROM fact WHERE id = ?2) AND other_scope = 0 AND seq = ?1
  AND EXISTS(SELECT 1 FROM fact WHERE id = ?3)"""
_ENDS = (("from", "to"), ("origin", "copy"))


def fill(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Fill the column for the events that a replay reads."""
    _fill(connection, connection.execute(_EVENTS).fetchall())


def fill_old(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Fill the column for links from before the log sufficed for a replay."""
    _fill(connection, connection.execute(_OLD_EVENTS).fetchall())


def _fill(connection: apsw.Connection, events: Sequence[Any]) -> None:
    for seq, salt, data in events:
        for part in event_payloads.decode(event_payloads.StoredPayload(salt, data)):
            for own_end, far_end in _ENDS:
                if part and own_end in part:
                    ends = [
                        (seq, part[own_end], part[far_end]),
                        (seq, part[far_end], part[own_end]),
                    ]
                    connection.executemany(_FILL, ends)
