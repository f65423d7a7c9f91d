"""Replays the log: its events, in order, make the projections.

An event of which every part was erased changes nothing, and a part that was erased neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_service.event_log import event_payloads
from knowledge_service.event_log.events import Event, LogEntry
from knowledge_service.event_log.ports import NEWEST, LogReader, Projections


def read_events(log: LogReader, first: int = 1, last: int = NEWEST) -> Iterator[Event]:
    """Return a stretch of the log with the parts of each event."""
    return map(event_of, log.entries(first, last))


def event_of(entry: LogEntry) -> Event:
    """Return the event of an entry; without a payload it has no parts."""
    row, payload = entry
    parts = () if payload is None else event_payloads.decode(payload)
    return Event(row.seq, row.scope_no, row.type, row.actor, row.at, parts)


def replay(events: Iterable[Event], projections: Projections) -> int:
    """Make the projections again from events; return how many there were."""
    projections.clear()
    count = 0
    for event in events:
        projections.apply(event)
        count += 1
    return count
