"""Protocols of the service's database, and the `Store` that combines them.

Every read takes the reader's `View`, so that no implementation can forget the reader. A read
neither returns nor counts anything outside the view. Calls block; routes run them in worker
threads. Every write is durable when it returns. Every method may raise `StoreUnavailable` when the
database cannot answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from knowledge_client.models import StoreIdentity
from knowledge_service.ports.event_stream import (
    AuditCursor,
    AuditRecords,
    ChangePage,
    ChangeRecord,
    EventLogStore,
)
from knowledge_service.ports.fact_lifecycle import FactLifecycleStore
from knowledge_service.ports.facts import FactStore, RecallStore
from knowledge_service.ports.identity import Authenticator
from knowledge_service.ports.links import (
    AliasListing,
    AuditReader,
    LinkStore,
    NeighbourQuery,
    NewLink,
    ProvenanceStore,
)
from knowledge_service.ports.operations import OperationStore
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
from knowledge_service.ports.runs import (
    ExtractionCall,
    ExtractionQueue,
    ExtractionStore,
    RunStore,
)
from knowledge_service.ports.scopes import PrincipalStore, ScopeStore
from knowledge_service.ports.usage import NO_CONTEXT, FactUsage, UsageContext, UsageStore

__all__ = [
    "NO_CONTEXT",
    "ActionContext",
    "Actor",
    "AliasListing",
    "AuditCursor",
    "AuditReader",
    "AuditRecords",
    "Authenticator",
    "ChangePage",
    "ChangeRecord",
    "EventLogStore",
    "ExtractionCall",
    "ExtractionQueue",
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
    "OperationStore",
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
    "UsageContext",
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
    OperationStore,
    Protocol,
):
    """All ports of the service's database."""

    @property
    def erased_at_s(self) -> float:
        """Return when text was last erased, by `time.monotonic`: no later read has it."""
        ...

    def identity(self) -> StoreIdentity:
        """Return the store's id and epoch."""
        ...

    def check(self) -> None:
        """Check that the store can write.

        Raises:
            StoreUnavailable: the store cannot write; the message has the reason.
        """
        ...

    def check_alive(self) -> None:
        """Check whether only a restart can help. Does not wait.

        Raises:
            StoreUnavailable: only a restart helps; the message has the reason.
        """
        ...

    def latest(self) -> datetime:
        """Return the time of the last write. A clock that was set back is earlier than it."""
        ...

    def close(self) -> None:
        """Finish the queued writes and close the file."""
        ...
