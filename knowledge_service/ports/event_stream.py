"""Port for the event stream and the audit log, which are read from the event log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge_client.models import AuditEntry
from knowledge_service.domain.access_control import ScopeRange, View


@dataclass(frozen=True)
class ChangeRecord:
    """One event as a reader sees it. `position` leaves the service only in encrypted form.

    `kinds` and `schemas` are those of the facts that the reader sees, sorted.
    """

    position: int
    type: str
    scope: str
    actor: str
    at: datetime
    facts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    run: str | None = None
    session: str | None = None
    kinds: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangePage:
    """Visible events after a position, and the position up to which the log was read."""

    changes: tuple[ChangeRecord, ...]
    position: int


@dataclass(frozen=True)
class AuditCursor:
    """The start of a page of the audit log: events before `event`, receipts before (`at`, `id`)."""

    event: int
    at_us: int
    receipt: str


@dataclass(frozen=True)
class AuditRecords:
    """A page of the audit log; `next` is None when there are no older entries."""

    entries: tuple[AuditEntry, ...]
    next: AuditCursor | None


class EventLogStore(Protocol):
    """Read access to the event log."""

    def encryption_key(self) -> bytes:
        """Return the secret of this store that encrypts stream positions."""
        ...

    def bounds(self) -> tuple[int, int]:
        """Return the position before the first retained event, and the position of the last one."""
        ...

    def changes(self, after_position: int, view: View, *, limit: int) -> ChangePage:
        """Return visible events after a position, in log order."""
        ...

    def audit(
        self, scope_ranges: Sequence[ScopeRange], cursor: AuditCursor | None, *, limit: int
    ) -> AuditRecords:
        """Return audit entries of the scopes in `scope_ranges`, newest first.

        Entries without a scope, such as registrations, are only for readers of the whole platform.
        """
        ...
