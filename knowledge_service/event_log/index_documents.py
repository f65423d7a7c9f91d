"""The index data in the log: texts of facts, moves between scopes, and tombstones.

An erased fact keeps its position in the index as a tombstone. `fact.erased` names the event and the
part that recorded the fact. Older erasures do not, and the index has no tombstone for their facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from knowledge_service.event_log import fact_events, legacy_rows
from knowledge_service.event_log.events import Event
from knowledge_service.event_log.replay import event_of
from knowledge_service.event_log.store_ports import LogReader

SCOPE_ADOPTED = "scope.adopted"
"""A retired scope returned and took over the facts of its successor."""


@dataclass(frozen=True)
class Tombstone:
    """An erased fact: its last scope, and its number."""

    scope_no: int
    fact_no: int


def moved_facts(event: Event) -> Mapping[int, int]:
    """Return the new scopes of the facts that an event moved, by fact number."""
    if event.type != SCOPE_ADOPTED or event.scope_no is None:
        return {}
    return {
        number: event.scope_no for part in event.remaining_parts() for number in part["numbers"]
    }


def last_moves(log: LogReader) -> dict[int, tuple[int, int]]:
    """Return the event and the target scope of each fact's last move, by fact number."""
    moves: dict[int, tuple[int, int]] = {}
    for event in map(event_of, log.entries_of_type(SCOPE_ADOPTED)):
        moves |= {number: (event.seq, to) for number, to in moved_facts(event).items()}
    return moves


def tombstones(log: LogReader) -> Mapping[int, Mapping[int, Tombstone]]:
    """Return the tombstones by recording event and the index of the part in that event."""
    emptied = _emptied_scopes(log)
    tombstones_by_event: dict[int, dict[int, Tombstone]] = {}
    for event in map(event_of, log.entries_of_type(fact_events.ERASED)):
        for part in event.remaining_parts():
            if "recorded" in part and emptied.get(part["scope"], 0) < event.seq:
                seq, part_index = part["recorded"]
                tombstones_by_event.setdefault(seq, {})[part_index] = Tombstone(
                    part["scope"], part["number"]
                )
    return tombstones_by_event


def documents(
    event: Event, erased: Mapping[int, Tombstone]
) -> Iterator[tuple[int, int, str | Tombstone]]:
    """Yield scope, number and text of the facts that an event added to the index.

    An erased fact has a `Tombstone` in place of its text. `erased` holds the tombstones of the
    event by part index, because nothing else is left of an event without parts.
    """
    if event.type not in {fact_events.RECORDED, legacy_rows.TYPE}:
        return
    for part_index in range(
        max([len(event.parts), *(erased_index + 1 for erased_index in erased)])
    ):
        part = event.parts[part_index] if part_index < len(event.parts) else None
        if part is None:
            tombstone = erased.get(part_index)
            if tombstone:
                yield tombstone.scope_no, tombstone.fact_no, tombstone
        elif event.type == legacy_rows.TYPE:
            document = legacy_rows.index_text(part)
            if document:
                yield document
        elif event.scope_no is not None:
            yield event.scope_no, *fact_events.index_text(part)


def _emptied_scopes(log: LogReader) -> dict[int, int]:
    """Return the last event that emptied each scope by moving its facts."""
    return {
        part["from"]: event.seq
        for event in map(event_of, log.entries_of_type(SCOPE_ADOPTED))
        for part in event.remaining_parts()
        if part["from"] is not None
    }
