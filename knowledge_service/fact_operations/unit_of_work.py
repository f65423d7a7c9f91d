"""The unit of work: what an operation on facts may read and write inside one write of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from knowledge_client.models import Fact, ScopeConfig
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import NotFound
from knowledge_service.event_log.events import Event
from knowledge_service.ports import Actor


@dataclass(frozen=True)
class LiveLink:
    """A link that is not closed."""

    id: str
    from_id: str
    to_id: str
    type: str


@dataclass(frozen=True)
class ActivePromotion:
    """A promotion that was not taken back."""

    id: str
    origin: str
    copy: str


@dataclass(frozen=True)
class Confirmation:
    """Somebody said a fact again; `session` names what that happened in, when it was told."""

    actor: str
    session: str | None


@dataclass(frozen=True)
class RunExposure:
    """One closed run of a mission that had a fact in front of it; `mission` names that."""

    run_id: str
    mission: str
    outcome: str


@dataclass(frozen=True)
class Decision:
    """What a reviewer decided about a fact; `replaced`: approved with edits, as another fact."""

    fact: Fact
    verdict: Literal["approved", "rejected", "replaced"]


@dataclass(frozen=True)
class Closer:
    """Who closed a fact; `type` is None in the log of older versions."""

    name: str
    type: str | None


class FactUnitOfWork(Protocol):
    """One write. Events recorded after `begin` belong together: undo takes them back together."""

    @property
    def at_us(self) -> int:
        """The moment of the write."""
        ...

    def begin(self) -> None:
        """Start a new operation."""
        ...

    def new_id(self) -> str:
        """Return a new id, later than all before it."""
        ...

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact of a scope that is not retired, by id or alias-free id."""
        ...

    def equal(self, scope: str, content_hash: bytes) -> Fact | None:
        """Return an equal fact: a live one, else a retracted one, else the newest."""
        ...

    def decision(self, scope: str, content_hash: bytes) -> Decision | None:
        """Return what a reviewer decided about the newest equal fact that was reviewed."""
        ...

    def facts_by_key(self, scope: str, key_hash: bytes) -> Sequence[Fact]:
        """Return the live and superseded facts of a key, the oldest first."""
        ...

    def links(self, fact_id: str) -> Sequence[LiveLink]:
        """Return the live links at either end of a fact."""
        ...

    def promotions(self, fact_id: str) -> Sequence[ActivePromotion]:
        """Return the standing promotions that a fact is origin or copy of."""
        ...

    def copies(self, fact_id: str) -> Sequence[str]:
        """Return the facts that promotions of a fact made, wherever they are and whatever became.

        A promotion that confirmed an equal fact above made none.
        """
        ...

    def confirmations(self, fact_id: str) -> Sequence[Confirmation]:
        """Return who confirmed a fact and in which session, each pair once."""
        ...

    def config(self, scope: str) -> ScopeConfig:
        """Return how a scope is declared; the defaults when nobody declared it."""
        ...

    def run_exposures(self, fact_id: str) -> Sequence[RunExposure]:
        """Return the closed runs of missions that had the fact in front of them.

        Only the operator opens and closes these; an agent's own sessions prove nothing.
        """
        ...

    def record(
        self, kind: str, *, scope: str, actor: Actor, parts: Sequence[Mapping[str, Any]]
    ) -> None:
        """Append an event and apply it."""
        ...

    def create(
        self, new: NewFact, fact_id: str, *, actor: Actor, payload_additions: Mapping[str, Any]
    ) -> None:
        """Record a new fact, made with its scope if that is new; `given` adds to its event."""
        ...

    def require_room(self, scope: str) -> None:
        """Let pass when one more live fact fits into a scope; a declared one has its own bound.

        Raises:
            QuotaExceeded: it has no KnowledgeScope and holds the maximum.
        """
        ...

    def transfer_aliases(self, old_id: str, new_id: str, *, actor: Actor) -> None:
        """Let a fact's names go on to its successor."""
        ...

    def operation(self, fact_id: str) -> int | None:
        """Return the last operation on a fact that was not taken back."""
        ...

    def events(self, op: int) -> Sequence[Event]:
        """Return the events of an operation, in order."""
        ...

    def values_before(self, fact_id: str, seq: int) -> Mapping[str, Any] | None:
        """Return what an event changed on a fact as it was before; None when it was nothing."""
        ...

    def closer(self, fact_id: str) -> Closer | None:
        """Return who closed a fact last; None if it was recorded closed or its event was erased."""
        ...

    def ended_live(self, fact_id: str) -> tuple[int | None] | None:
        """Return until when a closed fact held before it was closed; None if it never was live."""
        ...

    def erase(self, fact_ids: Sequence[str], *, actor: Actor, reason: str) -> tuple[int, int]:
        """Take facts out of tables, index and payloads; count the links and events that went."""
        ...


def closes(part: Mapping[str, Any]) -> bool:
    """Tell whether a part of an event ends a live fact."""
    return bool(part.get("set", {}).get("lifecycle", "live") != "live")


def require_fact(uow: FactUnitOfWork, fact_id: str) -> Fact:
    """Return a fact that must be there.

    Raises:
        NotFound: it is not.
    """
    fact = uow.fact(fact_id)
    if fact is None:
        raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
    return fact
