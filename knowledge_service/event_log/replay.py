"""Replays the log: its events, in order, rebuild the projections.

Erased parts, and events with no part left, change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge_service.event_log import event_payloads
from knowledge_service.event_log.events import Event, LogEntry
from knowledge_service.event_log.store_ports import NEWEST, LogReader, Projections


def read_events(log: LogReader, first: int = 1, last: int = NEWEST) -> Iterator[Event]:
    """Return the events from `first` to `last` with their parts."""
    return map(event_of, log.entries(first, last))


def event_of(entry: LogEntry) -> Event:
    """Return the event of an entry; without a payload it has no parts."""
    row, payload = entry
    parts = () if payload is None else event_payloads.decode(payload)
    return Event(row.seq, row.scope_no, row.type, row.actor, row.at, parts)


def replay(events: Iterable[Event], projections: Projections) -> int:
    """Rebuild the projections from events; return the number of events."""
    projections.clear()
    count = 0
    for event in events:
        projections.apply(event)
        count += 1
    return count
