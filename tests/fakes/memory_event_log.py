"""An event log in memory: what a store must bring beside the rules of `event_log`."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from knowledge_service.event_log import fact_events, legacy_rows, replay, times
from knowledge_service.event_log.event_payloads import StoredPayload
from knowledge_service.event_log.events import Event, EventRow, LogEntry, PendingEvent
from knowledge_service.event_log.hash_chain import EventAppender, read_head
from knowledge_service.event_log.log_export import read_export, write_export
from knowledge_service.event_log.log_verification import Report, verify_log
from knowledge_service.event_log.store_ports import NEWEST

_EMPTY: Mapping[str, Any] = {"lifecycle": "live", "review": "none", "flags": []}


class MemoryTable:
    """The `LogTable` port."""

    read_errors: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        self.rows: dict[int, EventRow] = {}
        self.payloads: dict[int, StoredPayload] = {}

    def entries(self, first: int = 1, last: int = NEWEST) -> Iterator[LogEntry]:
        """Return the events from one number to another, in order."""
        for seq in sorted(self.rows):
            if first <= seq <= last:
                yield LogEntry(self.rows[seq], self.payloads.get(seq))

    def entries_of_type(self, kind: str) -> Iterator[LogEntry]:
        """Return the events of a type, in order."""
        return (entry for entry in self.entries() if entry.row.type == kind)

    def stray_payloads(self) -> Iterable[int]:
        """Return the numbers under which a payload, but no event, is stored."""
        return sorted(self.payloads.keys() - self.rows.keys())

    def last_row(self) -> EventRow | None:
        """Return the newest event; None in an empty log."""
        return self.rows[max(self.rows)] if self.rows else None

    def insert(self, entries: Sequence[LogEntry]) -> None:
        """Store events and their payloads."""
        for row, payload in entries:
            self.rows[row.seq] = row
            if payload is not None:
                self.payloads[row.seq] = payload

    def replace_payload(self, seq: int, payload: StoredPayload) -> None:
        """Store another payload for an event."""
        self.payloads[seq] = payload

    def delete_payload(self, seq: int) -> None:
        """Delete an event's payload."""
        del self.payloads[seq]


@dataclass
class StoredFact:
    """A fact, and the columns of it that events change."""

    number: int
    scope_no: int | None
    content: str
    columns: dict[str, Any]
    version: int = 1


@dataclass
class MemoryProjections:
    """The `Projections` and `FactReferences` ports: facts, their aliases, reviews and events."""

    facts: dict[str, StoredFact] = field(default_factory=dict)
    live: Counter[int | None] = field(default_factory=Counter)
    named: dict[tuple[int | None, str, str], str] = field(default_factory=dict)
    reviews: set[tuple[int, str]] = field(default_factory=set)
    about: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The events of each fact, with their operations."""
    legacy: list[int] = field(default_factory=list)

    def clear(self) -> None:
        """Empty everything that a replay fills."""
        for container in (
            self.facts, self.live, self.named, self.reviews, self.about, self.legacy
        ):  # fmt: skip
            container.clear()

    def apply(self, event: Event) -> None:
        """Change the facts as an event says; other things are not projected here."""
        if event.type == legacy_rows.TYPE:
            self.legacy.append(event.seq)
        apply = _APPLY.get(event.type)
        if apply:
            for part in event.remaining_parts():
                apply(self, event, part)

    def _record(self, event: Event, part: Mapping[str, Any]) -> None:
        columns = {name: part.get(name) for name in fact_events.CHANGEABLE}
        columns |= {name: value for name, value in _EMPTY.items() if columns[name] is None}
        if columns["lifecycle"] != "live":
            columns |= {"closed_at": event.at, "closed_by": event.actor}
        fact = StoredFact(part["no"], event.scope_no, part["content"], columns)
        self.facts[part["fact"]] = fact
        self.live[event.scope_no] += columns["lifecycle"] == "live"
        self._concerns(event, part["fact"])

    def _change(self, event: Event, part: Mapping[str, Any]) -> None:
        fact = self.facts.get(part["fact"])
        if fact is None:
            return
        change = fact_events.compute_change(fact.columns, part.get("set", {}))
        if change is not None:
            fact.columns = dict(change.columns)
            fact.version += 1
            self.live[fact.scope_no] += change.live_delta
        if event.type == fact_events.REVIEWED:
            self.reviews.add((event.seq, part["fact"]))
        self._concerns(event, part["fact"])

    def _name(self, event: Event, part: Mapping[str, Any]) -> None:
        if part["fact"] in self.facts:
            self.named[event.scope_no, part["namespace"], part["value"]] = part["fact"]
            self._concerns(event, part["fact"])

    def _restate(self, event: Event, part: Mapping[str, Any]) -> None:
        if part["fact"] in self.facts:
            self._concerns(event, part["fact"])
            if part["stands"]:
                self.reviews.add((part["seq"], part["fact"]))

    def _erase(self, _event: Event, part: Mapping[str, Any]) -> None:
        fact = self.facts.pop(part["fact"], None)
        if fact is not None:
            self.live[fact.scope_no] -= fact.columns["lifecycle"] == "live"
            self.about.pop(fact.number, None)
        self.named = {key: holder for key, holder in self.named.items() if holder in self.facts}
        self.reviews = {(seq, holder) for seq, holder in self.reviews if holder in self.facts}
        erased, detached = set(part["events"]), {(seq, no) for seq, no in part["detached"]}
        for number, events in self.about.items():
            events[:] = [
                (seq, op)
                for seq, op in events
                if seq not in erased and (seq, number) not in detached
            ]

    def _concerns(self, event: Event, fact_id: str) -> None:
        self.about.setdefault(self.facts[fact_id].number, []).append((event.seq, event.op))

    def aliases(self, fact_no: int) -> Iterable[tuple[str, str]]:
        """Return namespace and value of each alias of a fact."""
        return [
            (namespace, value)
            for (_, namespace, value), holder in self.named.items()
            if self.facts[holder].number == fact_no
        ]

    def operations(self, fact_no: int) -> Sequence[tuple[int, int]]:
        """Return number and operation of all events of the operations that changed a fact."""
        own = {op for _, op in self.about.get(fact_no, ())}
        events = {event for events in self.about.values() for event in events}
        return sorted((seq, op) for seq, op in events if op in own)

    def events_about(self, fact_id: str) -> Iterable[int]:
        """Return the numbers of the events about a fact, in order."""
        numbers = self.fact_numbers(fact_id)
        return [seq for number in numbers for seq, _ in self.about.get(number, ())]

    def legacy_events(self) -> Iterable[int]:
        """Return the numbers of the events that hold rows from before the log."""
        return self.legacy

    def is_review_in_force(self, seq: int, fact_id: str) -> bool:
        """Whether a fact still has the review that an event recorded."""
        return (seq, fact_id) in self.reviews

    def fact_numbers(self, fact_id: str) -> Sequence[int]:
        """Return the number of a fact; empty when there is no such fact."""
        return [self.facts[fact_id].number] if fact_id in self.facts else []


_APPLY: Mapping[str, Callable[[MemoryProjections, Event, Mapping[str, Any]], None]] = {
    fact_events.RECORDED: MemoryProjections._record,
    fact_events.RESTATED: MemoryProjections._restate,
    fact_events.ERASED: MemoryProjections._erase,
    "alias.set": MemoryProjections._name,
    **dict.fromkeys(fact_events.CHANGES, MemoryProjections._change),
}


class MemoryTablesBesideLog:
    """The `ImportedTables` port: any rows, in the order in which they came."""

    write_errors: tuple[type[Exception], ...] = ()

    def __init__(self, schema: int) -> None:
        self.schema = schema
        self.stored: list[tuple[str, Mapping[str, Any]]] = []

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return the rows, each with the name of its table."""
        return iter(self.stored)

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Store a row."""
        self.stored.append((table, dict(row)))


class MemoryTransaction:
    """One write: appends events and applies them."""

    def __init__(self, log: MemoryEventLog, at_us: int) -> None:
        self.table = log.table
        self.references = log.projections
        self._projections = log.projections
        head = read_head(log.table)
        self._appender = EventAppender(log.table, head, max(head.at, at_us))

    def record(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event:
        """Append an event and do to the projections what it says."""
        (event,) = self._appender.append(kind, [PendingEvent(scope_no, actor, parts)])
        self._projections.apply(event)
        return event


class MemoryEventLog:
    """A log with its projections, written to by one transaction at a time."""

    def __init__(self, schema: int) -> None:
        self.table = MemoryTable()
        self.projections = MemoryProjections()
        self.tables = MemoryTablesBesideLog(schema)

    @contextmanager
    def transaction(self, now: datetime) -> Iterator[MemoryTransaction]:
        """Write all of it, or nothing when it fails."""
        initial_memory_tables = copy.deepcopy((self.table, self.projections, self.tables))
        try:
            yield MemoryTransaction(self, times.to_us(now))
        except BaseException:
            self.table, self.projections, self.tables = initial_memory_tables
            raise

    def rebuild(self) -> int:
        """Make the projections again from the log; return the number of events."""
        return replay.replay(replay.read_events(self.table), self.projections)

    def verify(self) -> Report:
        """Walk the hash chain."""
        return verify_log(self.table)

    def export(self) -> bytes:
        """Return the export of the log and of what is beside it."""
        stream = io.BytesIO()
        write_export(self.table, self.tables, stream)
        return stream.getvalue()

    def import_(self, lines: Iterable[bytes], now: datetime) -> None:
        """Take an export into this log, which is empty."""
        with self.transaction(now) as tx:
            self.tables.stored.clear()
            read_export(tx.table, self.tables, lines)
            self.rebuild()
