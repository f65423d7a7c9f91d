"""The unit of work: the reads and writes of an operation within one write of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from knowledge_client.models import Alias, Fact, ScopeConfig
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
    weight: float | None = None
    data: Any = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True)
class ActivePromotion:
    """A promotion that was not undone."""

    id: str
    origin: str
    copy: str


@dataclass(frozen=True)
class Confirmation:
    """A confirmation of a fact; `session` is its context, if known."""

    actor: str
    session: str | None


@dataclass(frozen=True)
class RunExposure:
    """A closed run of a mission that recalled a fact."""

    run_id: str
    mission: str
    outcome: str


@dataclass(frozen=True)
class Decision:
    """A reviewer's decision about a fact; `replaced` means approved with edits, as another fact."""

    fact: Fact
    verdict: Literal["approved", "rejected", "replaced"]


@dataclass(frozen=True)
class Closer:
    """The actor that closed a fact; `type` is None in the log of older versions."""

    name: str
    type: str | None


class FactUnitOfWork(Protocol):
    """One write. The events after `begin` are one operation, which undo reverts as a whole."""

    @property
    def at_us(self) -> int:
        """The time of the write, in microseconds since 1970."""
        ...

    def begin(self, *, acts: int | None = None) -> None:
        """Start a new operation; its first event names the number of its acts, if given."""
        ...

    def new_id(self) -> str:
        """Return a new id, which sorts after all earlier ones."""
        ...

    def fact(self, fact_id: str) -> Fact | None:
        """Return a fact of a scope that is not retired, by its id, or None."""
        ...

    def equal(self, scope: str, content_hash: bytes) -> Fact | None:
        """Return an equal fact: a live one, else a retracted one, else the newest."""
        ...

    def decision(self, scope: str, content_hash: bytes) -> Decision | None:
        """Return a reviewer's decision about the newest equal fact that was reviewed."""
        ...

    def facts_by_key(self, scope: str, key_hash: bytes) -> Sequence[Fact]:
        """Return the live and superseded facts of a key, oldest first."""
        ...

    def links(self, fact_id: str) -> Sequence[LiveLink]:
        """Return the live links at both ends of a fact."""
        ...

    def live_link(self, from_id: str, to_id: str, kind: str) -> LiveLink | None:
        """Return the live link of a type from one fact to another, or None."""
        ...

    def is_link_live(self, link_id: str) -> bool:
        """Return whether a link exists and is not closed."""
        ...

    def root(self, fact_id: str) -> str:
        """Return the first version of a revised fact; the fact itself if it revises none."""
        ...

    def promotions(self, fact_id: str) -> Sequence[ActivePromotion]:
        """Return the active promotions of which a fact is the origin or the copy."""
        ...

    def copies(self, fact_id: str) -> Sequence[str]:
        """Return the facts that promotions of a fact created, in any scope and lifecycle state.

        A promotion that confirmed an equal fact above created none.
        """
        ...

    def confirmations(self, fact_id: str) -> Sequence[Confirmation]:
        """Return the distinct pairs of actor and session that confirmed a fact."""
        ...

    def config(self, scope: str) -> ScopeConfig:
        """Return the declared configuration of a scope, or the defaults of an undeclared one."""
        ...

    def run_exposures(self, fact_id: str) -> Sequence[RunExposure]:
        """Return the closed runs of missions that recalled the fact.

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
        """Record a new fact, and its scope if that is new; extend the event with the additions."""
        ...

    def require_room(self, scope: str) -> None:
        """Check that a scope has room for one more live fact; a declared scope has its own bound.

        Raises:
            QuotaExceeded: the scope has no KnowledgeScope and holds the maximum.
        """
        ...

    def aliases(self, fact_id: str) -> Sequence[Alias]:
        """Return the aliases of a fact."""
        ...

    def alias_holder(self, scope: str, alias: Alias) -> Fact | None:
        """Return the fact with an alias in a scope, in any lifecycle state, or None."""
        ...

    def alias_holders_in_realm(self, realm: str, alias: Alias) -> Sequence[Fact]:
        """Return the facts of a realm with an alias, in all its scopes, that are not retracted."""
        ...

    def last_number_in_realm(self, realm: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence that was taken in any scope of a realm, or 0."""
        ...

    def last_number(self, scope: str, namespace: str, prefix: str) -> int:
        """Return the last number of a sequence that was taken, or 0."""
        ...

    def transfer_aliases(self, old_id: str, new_id: str, *, actor: Actor) -> None:
        """Move a fact's aliases to its successor."""
        ...

    def operation(self, fact_id: str) -> int | None:
        """Return the last operation on a fact that was not undone."""
        ...

    def events(self, op: int) -> Sequence[Event]:
        """Return the events of an operation, in order."""
        ...

    def values_before(self, fact_id: str, seq: int) -> Mapping[str, Any] | None:
        """Return the fact's values before an event changed them; None when it changed nothing."""
        ...

    def closer(self, fact_id: str) -> Closer | None:
        """Return the actor that closed a fact last.

        None if the fact was recorded as closed, or the closing event was erased.
        """
        ...

    def ended_live(self, fact_id: str) -> tuple[int | None] | None:
        """Return the end of validity that a closed fact had before; None if it was never live."""
        ...

    def erase(self, fact_ids: Sequence[str], *, actor: Actor, reason: str) -> tuple[int, int]:
        """Erase facts from tables, index and payloads; return the counts of links and events."""
        ...


def closes(part: Mapping[str, Any]) -> bool:
    """Return whether a part of an event closes a live fact."""
    return bool(part.get("set", {}).get("lifecycle", "live") != "live")


def require_fact(uow: FactUnitOfWork, fact_id: str) -> Fact:
    """Return a fact that must exist.

    Raises:
        NotFound: it does not.
    """
    fact = uow.fact(fact_id)
    if fact is None:
        raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
    return fact
