"""Usage that is told, and the log as readers and auditors see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge_client.models import AuditEntry, UsageKind
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.ports.queries import Once


@dataclass(frozen=True)
class Use:
    """So many uses of a fact."""

    fact_id: str
    kind: UsageKind
    count: int


@dataclass(frozen=True)
class Change:
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
class Changes:
    """Visible events after a position, and up to which position was looked."""

    found: tuple[Change, ...]
    position: int


@dataclass(frozen=True)
class AuditPlace:
    """Where an audit's page begins: only events before `event`, receipts before (`at`, `id`)."""

    event: int
    at_us: int
    receipt: str


@dataclass(frozen=True)
class Acts:
    """A page of the audit; `next` is None when nothing older is kept."""

    entries: tuple[AuditEntry, ...]
    next: AuditPlace | None


class UsageStore(Protocol):
    """Usage by observers."""

    def count_usage(
        self, uses: Sequence[Use], *, observer: str, actor: str, once: Once | None = None
    ) -> int:
        """Count uses, all or none; return how many."""
        ...


class ChangeStore(Protocol):
    """The log, read."""

    def seal_key(self) -> bytes:
        """Return the secret of this store that seals positions."""
        ...

    def bounds(self) -> tuple[int, int]:
        """Return the positions before the first event that is kept, and of the last one."""
        ...

    def changes(self, after: int, view: View, *, limit: int) -> Changes:
        """Return visible events after a position, in order."""
        ...

    def audit(
        self, reaches: Sequence[ScopeRange], before: AuditPlace | None, *, limit: int
    ) -> Acts:
        """Return acts in the scopes that are reached, newest first.

        What belongs to no scope, as registrations do, is for who reaches the whole platform.
        """
        ...
