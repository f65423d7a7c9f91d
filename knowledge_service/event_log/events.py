"""Events of the log: as they are read, as they are to be appended, and as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowledge_service.event_log.event_payloads import StoredPayload


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log with its payload; a part that was erased is None."""

    seq: int
    scope_no: int | None
    type: str
    actor: str
    at: int
    parts: tuple[Mapping[str, Any] | None, ...]

    def remaining_parts(self) -> Iterator[Mapping[str, Any]]:
        """Go through the parts that were not erased."""
        return (part for part in self.parts if part is not None)

    @property
    def op(self) -> int:
        """Return the first event of what the call did that this is part of."""
        return int(next((part["op"] for part in self.remaining_parts() if "op" in part), self.seq))

    @property
    def is_link_alone(self) -> bool:
        """Whether it is a link that somebody made or closed, and not a part of something larger.

        It is a statement about the fact that it starts from: the other is named by it, not changed.
        """
        return self.type.startswith("link.") and self.op == self.seq


class PendingEvent(NamedTuple):
    """An event to append: its scope, who causes it, and its parts."""

    scope_no: int | None
    actor: str
    parts: Sequence[Mapping[str, Any]]


class EncodedEvent(NamedTuple):
    """An event to append, its parts as lines of JSON."""

    scope_no: int | None
    actor: str
    lines: Sequence[bytes]


class EventRow(NamedTuple):
    """An event without its payload, in the order in which the chain hashes it."""

    seq: int
    scope_no: int | None
    type: str
    actor: str
    at: int
    payload_hash: bytes
    prev_hash: bytes


class LogEntry(NamedTuple):
    """A stored event; no payload when all of it was erased."""

    row: EventRow
    payload: StoredPayload | None
