"""Fills `fact_event.other_scope` in an older file, as a replay would."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from knowledge_service.clock import Clock
from knowledge_service.event_log.events import Event
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite import event_table

_REPLAY_FROM = "coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'replay_from'), 1)"
_EVENTS = event_table.select_events(
    "event e",
    f"""WHERE e.seq >= {_REPLAY_FROM} AND e.type IN ('link.made', 'link.closed', 'link.restored',
    'promotion.made', 'promotion.undone', 'promotion.redone') ORDER BY e.seq""",
)
_OLD_EVENTS = event_table.select_events(
    "event e", f"WHERE e.seq < {_REPLAY_FROM} AND e.type = 'link.made' ORDER BY e.seq"
)
_FILL = """UPDATE fact_event SET other_scope = (SELECT scope_no FROM fact WHERE id = ?3)
  WHERE fact_no = (SELECT fact_no FROM fact WHERE id = ?2) AND other_scope = 0 AND seq = ?1
  AND EXISTS(SELECT 1 FROM fact WHERE id = ?3)"""
_ENDS = (("from", "to"), ("origin", "copy"))


def fill(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Fill the column for the events that a replay reads."""
    _fill(connection, list(event_table.read_events(connection, _EVENTS)))


def fill_old(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Fill the column for links from before the log sufficed for a replay."""
    _fill(connection, list(event_table.read_events(connection, _OLD_EVENTS)))


def _fill(connection: apsw.Connection, events: Sequence[Event]) -> None:
    for event in events:
        for part in event.remaining_parts():
            for own_end, far_end in _ENDS:
                if own_end in part:
                    ends = [
                        (event.seq, part[own_end], part[far_end]),
                        (event.seq, part[far_end], part[own_end]),
                    ]
                    connection.executemany(_FILL, ends)
