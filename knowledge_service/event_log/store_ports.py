"""The store's ports for the event log: rows, payloads and projections.

The log's rules (hash chain, erasure, replay, verification, export) use these ports alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from knowledge_service.event_log.event_payloads import StoredPayload
from knowledge_service.event_log.events import Event, EventRow, LogEntry

NEWEST = 2**62
"""Larger than the number of any event."""


class LogReader(Protocol):
    """Read access to the log within one snapshot."""

    read_errors: tuple[type[Exception], ...]
    """Exceptions that a read raises when the store's file is damaged."""

    def entries(self, first: int = 1, last: int = NEWEST) -> Iterator[LogEntry]:
        """Return the events from `first` to `last`, in order."""
        ...

    def entries_of_type(self, kind: str) -> Iterator[LogEntry]:
        """Return the events of a type, in order."""
        ...

    def stray_payloads(self) -> Iterable[int]:
        """Return the numbers of payloads without an event."""
        ...


class LogTable(LogReader, Protocol):
    """Access to the log within one write of the store."""

    def last_row(self) -> EventRow | None:
        """Return the newest event; None in an empty log."""
        ...

    def insert(self, entries: Sequence[LogEntry]) -> None:
        """Store events and their payloads."""
        ...

    def replace_payload(self, seq: int, payload: StoredPayload) -> None:
        """Replace an event's payload."""
        ...

    def delete_payload(self, seq: int) -> None:
        """Delete an event's payload."""
        ...


class Projections(Protocol):
    """The tables that a replay of the log fills."""

    def clear(self) -> None:
        """Empty the tables."""
        ...

    def apply(self, event: Event) -> None:
        """Apply an event to the tables."""
        ...


class FactReferences(Protocol):
    """The events that concern a fact, according to the projections."""

    def aliases(self, fact_no: int) -> Iterable[tuple[str, str]]:
        """Return namespace and value of each alias of a fact."""
        ...

    def alias_holder(self, scope_no: int, namespace: str, value: str) -> str | None:
        """Return the id of the fact that has an alias, or None."""
        ...

    def operations(self, fact_no: int) -> Sequence[tuple[int, int]]:
        """Return (event, operation) numbers of all operations that changed a fact."""
        ...

    def events_about(self, fact_id: str) -> Iterable[int]:
        """Return the numbers of the events about a fact, in order."""
        ...

    def legacy_events(self) -> Iterable[int]:
        """Return the numbers of the events with rows from before the log."""
        ...

    def is_review_in_force(self, seq: int, fact_id: str) -> bool:
        """Return whether the review that an event recorded is still the fact's review."""
        ...

    def fact_numbers(self, fact_id: str) -> Sequence[int]:
        """Return the number of a fact; empty when there is no such fact."""
        ...


class ExportedTables(Protocol):
    """The exported tables besides the log, which no replay fills."""

    schema: int
    """The number of the store's newest migration."""

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return the rows with the names of their tables, in a fixed order."""
        ...


class ImportedTables(ExportedTables, Protocol):
    """The same tables during an import."""

    write_errors: tuple[type[Exception], ...]
    """Exceptions that a write raises when a row does not fit."""

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Store a row.

        Raises:
            ValueError: there is no such table or column.
        """
        ...
