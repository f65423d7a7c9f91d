"""What the service needs of a database: small protocols, and the `Store` that is all of them.

Every read takes the reader's `View`, so that no implementation can forget who asks; what lies
outside of it is neither returned nor counted. Calls block; routes run them in worker threads. Every
write is durable when it returns. Raises `StoreUnavailable` when the database cannot answer, from
any method.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge_client.models import StoreIdentity
from knowledge_service.ports.event_log import (
    AuditCursor,
    AuditRecords,
    ChangePage,
    ChangeRecord,
    EventLogStore,
    FactUsage,
    UsageStore,
)
from knowledge_service.ports.fact_lifecycle import FactLifecycleStore
from knowledge_service.ports.facts import FactStore, RecallStore
from knowledge_service.ports.identity import Authenticator
from knowledge_service.ports.links import (
    AuditReader,
    LinkStore,
    NeighbourQuery,
    NewLink,
    ProvenanceStore,
)
from knowledge_service.ports.queries import (
    ActionContext,
    Actor,
    Hit,
    IdempotencyKey,
    Listing,
    NewReceipt,
    RecallExplanation,
    ReviewQuery,
    RunListing,
    Search,
    SearchResult,
)
from knowledge_service.ports.runs import ExtractionStore, RunStore
from knowledge_service.ports.scopes import PrincipalStore, ScopeStore

__all__ = [
    "ActionContext",
    "Actor",
    "AuditCursor",
    "AuditReader",
    "AuditRecords",
    "Authenticator",
    "ChangePage",
    "ChangeRecord",
    "EventLogStore",
    "ExtractionStore",
    "FactLifecycleStore",
    "FactStore",
    "FactUsage",
    "Hit",
    "IdempotencyKey",
    "LinkStore",
    "Listing",
    "NeighbourQuery",
    "NewLink",
    "NewReceipt",
    "PrincipalStore",
    "ProvenanceStore",
    "RecallExplanation",
    "RecallStore",
    "ReviewQuery",
    "RunListing",
    "RunStore",
    "ScopeStore",
    "Search",
    "SearchResult",
    "Store",
    "UsageStore",
]


class Store(
    FactStore,
    RecallStore,
    RunStore,
    ExtractionStore,
    ScopeStore,
    PrincipalStore,
    LinkStore,
    ProvenanceStore,
    UsageStore,
    EventLogStore,
    FactLifecycleStore,
    Protocol,
):
    """Everything that the service keeps."""

    def identity(self) -> StoreIdentity:
        """Return the store's id and epoch."""
        ...

    def check(self) -> None:
        """Return when the store can write.

        Raises:
            StoreUnavailable: with the reason.
        """
        ...

    def check_alive(self) -> None:
        """Return unless only a restart can help; waits for nothing.

        Raises:
            StoreUnavailable: with the reason.
        """
        ...

    def latest(self) -> datetime:
        """Return the moment of the last write; a clock that was set back is before it."""
        ...

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        ...
