"""The hash chain: every event contains the hash of its predecessor."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from knowledge_service.domain.facts import canonical
from knowledge_service.event_log import event_payloads
from knowledge_service.event_log.events import (
    EncodedEvent,
    Event,
    EventRow,
    LogEntry,
    PendingEvent,
)
from knowledge_service.event_log.store_ports import LogTable


@dataclass(frozen=True)
class ChainHead:
    """The end of the hash chain."""

    seq: int
    hash: bytes
    at: int


EMPTY = ChainHead(0, bytes(32), 0)
"""The head of a log without events."""


def event_hash(row: Sequence[Any]) -> bytes:
    """Hash an event's columns in their order; the next event stores the hash as `prev_hash`."""
    fields = [item.hex() if isinstance(item, bytes) else item for item in row]
    return hashlib.sha256(canonical(fields).encode()).digest()


def read_head(log: LogTable) -> ChainHead:
    """Return the end of a log's chain."""
    row = log.last_row()
    return EMPTY if row is None else ChainHead(row.seq, event_hash(row), row.at)


class EventAppender:
    """Appends events with one time to the chain."""

    def __init__(self, log: LogTable, head: ChainHead, at_us: int) -> None:
        self._log = log
        self._at_us = at_us
        self.head = head

    def append(self, kind: str, events: Sequence[PendingEvent]) -> list[Event]:
        """Append events of one type, whose parts can be erased separately."""
        encoded = [[msgspec.json.encode(part) for part in event.parts] for event in events]
        seqs = self.append_encoded(
            kind,
            [
                EncodedEvent(event.scope_no, event.actor, lines)
                for event, lines in zip(events, encoded, strict=True)
            ],
        )
        return [
            Event(seq, event.scope_no, kind, event.actor, self._at_us, tuple(event.parts))
            for seq, event in zip(seqs, events, strict=True)
        ]

    def append_encoded(self, kind: str, events: Sequence[EncodedEvent]) -> list[int]:
        """Append events with parts that are JSON already; return their numbers."""
        entries = []
        for scope_no, actor, lines in events:
            seq = self.head.seq + 1
            payload, payload_hash = event_payloads.encode_lines(lines)
            row = EventRow(seq, scope_no, kind, actor, self._at_us, payload_hash, self.head.hash)
            entries.append(LogEntry(row, payload))
            self.head = ChainHead(seq, event_hash(row), self._at_us)
        self._log.insert(entries)
        return [entry.row.seq for entry in entries]
