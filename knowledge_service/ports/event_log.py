"""Ports for reported usage, the event stream and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge_client.models import AuditEntry, UsageKind
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.ports.queries import IdempotencyKey


@dataclass(frozen=True)
class FactUsage:
    """So many uses of a fact."""

    fact_id: str
    kind: UsageKind
    count: int


@dataclass(frozen=True)
class ChangeRecord:
    """One event as a reader sees it; `position` never leaves the service unsealed."""

    position: int
    type: str
    scope: str
    actor: str
    at: datetime
    facts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    run: str | None = None


@dataclass(frozen=True)
class ChangePage:
    """Visible events after a position, and up to which position was looked."""

    changes: tuple[ChangeRecord, ...]
    position: int


@dataclass(frozen=True)
class AuditCursor:
    """Where an audit's page begins: only events before `event`, receipts before (`at`, `id`)."""

    event: int
    at_us: int
    receipt: str


@dataclass(frozen=True)
class AuditRecords:
    """A page of the audit; `next` is None when nothing older is kept."""

    entries: tuple[AuditEntry, ...]
    next: AuditCursor | None


class UsageStore(Protocol):
    """Usage by observers."""

    def count_usage(
        self,
        uses: Sequence[FactUsage],
        *,
        observer: str,
        actor: str,
        idempotency_key: IdempotencyKey | None = None,
    ) -> int:
        """Count uses, all or none; return how many."""
        ...


class EventLogStore(Protocol):
    """The log, read."""

    def seal_key(self) -> bytes:
        """Return the secret of this store that seals positions."""
        ...

    def bounds(self) -> tuple[int, int]:
        """Return the positions before the first event that is kept, and of the last one."""
        ...

    def changes(self, after_position: int, view: View, *, limit: int) -> ChangePage:
        """Return visible events after a position, in order."""
        ...

    def audit(
        self, scope_ranges: Sequence[ScopeRange], cursor: AuditCursor | None, *, limit: int
    ) -> AuditRecords:
        """Return acts in the scopes that are reached, newest first.

        What belongs to no scope, as registrations do, is for who reaches the whole platform.
        """
        ...
