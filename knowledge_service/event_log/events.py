"""Events of the log: as read, before they are appended, and as stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from knowledge_service.event_log.event_payloads import StoredPayload


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log with its payload; an erased part is None."""

    seq: int
    scope_no: int | None
    type: str
    actor: str
    at: int
    parts: tuple[Mapping[str, Any] | None, ...]

    def remaining_parts(self) -> Iterator[Mapping[str, Any]]:
        """Yield the parts that were not erased."""
        return (part for part in self.parts if part is not None)

    @property
    def op(self) -> int:
        """Return the first event of the operation that this event is part of."""
        return int(next((part["op"] for part in self.remaining_parts() if "op" in part), self.seq))

    @property
    def is_link_alone(self) -> bool:
        """Whether the event made or closed a link on its own, not as part of a larger operation.

        Such a link is a statement about the fact at its start; the other fact is only referenced.
        """
        return self.type.startswith("link.") and self.op == self.seq


def is_reference(event: Event, part: Mapping[str, Any], name: str) -> bool:
    """Return whether a part of an event only refers to the fact that it names as `name`.

    Undo of that fact does not revert the event. A part with `of` counts for that fact alone.
    """
    if name not in ("from", "to"):
        return False
    if "of" in part:
        return bool(part[name] != part["of"])
    return name == "to" and event.is_link_alone


class PendingEvent(NamedTuple):
    """An event to append: its scope, its actor, and its parts."""

    scope_no: int | None
    actor: str
    parts: Sequence[Mapping[str, Any]]


class EncodedEvent(NamedTuple):
    """An event to append, with its parts as lines of JSON."""

    scope_no: int | None
    actor: str
    lines: Sequence[bytes]


class EventRow(NamedTuple):
    """An event without its payload, with the columns in the order that the chain hashes."""

    seq: int
    scope_no: int | None
    type: str
    actor: str
    at: int
    payload_hash: bytes
    prev_hash: bytes


class LogEntry(NamedTuple):
    """A stored event; `payload` is None when all of it was erased."""

    row: EventRow
    payload: StoredPayload | None
