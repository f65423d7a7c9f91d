"""What the service needs of a database: small protocols, and the `Store` that is all of them.

Every read takes the reader's `View`, so that no implementation can forget who asks; what lies
outside of it is neither returned nor counted. Calls block; routes run them in worker threads. Every
write is durable when it returns. Raises `StoreUnavailable` when the database cannot answer, from
any method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from knowledge_client.models import (
    BlueprintName,
    BlueprintStats,
    Corrected,
    Episode,
    EpisodeIn,
    EpisodesAccepted,
    Extraction,
    Fact,
    PrincipalIn,
    Recalled,
    Receipt,
    Remembered,
    Run,
    RunIn,
    ScopeConfig,
    ScopeStats,
    StoreId,
)
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.filtering import Filters
from knowledge_service.domain.visibility import Principal, PrincipalType, View


@dataclass(frozen=True)
class Actor:
    """Who writes: the name goes into sources and the event log."""

    name: str
    type: PrincipalType


@dataclass(frozen=True)
class Once:
    """An Idempotency-Key: a repeat with the same body gets the first answer and writes nothing."""

    principal: str
    key: str
    body_hash: str


@dataclass(frozen=True)
class Search:
    """A ranked retrieval in the scopes that are both named and visible.

    None names all visible ones.
    """

    view: View
    query: str
    limit: int
    scopes: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True)
class Hit:
    """A fact with its score and the parts that it is the sum of."""

    fact: Fact
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Listing:
    """A page of facts to be listed: newest first, only older than the fact `before`."""

    view: View
    limit: int
    scopes: tuple[str, ...] | None = None
    kind: str | None = None
    tag: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class RunListing:
    """A page of runs to be listed.

    The one opened last first, only opened before the run `before`.
    """

    view: View
    limit: int
    namespace: str | None = None
    blueprint: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class NewReceipt:
    """A receipt to be kept, and the home scope of whom the recall was for."""

    receipt: Receipt
    observer: str


class Authenticator(Protocol):
    """Finds out who calls, once per request."""

    @property
    def mode(self) -> Literal["kubernetes", "token", "none"]:
        """Return how callers are told apart."""
        ...

    async def principal(self, bearer: str | None) -> Principal:
        """Return the principal behind a token; None when the request had none.

        Raises:
            Unauthenticated: there is no good token.
            Unregistered: the token's account is not registered.
            IdentityUnavailable: nobody can be asked now.
        """
        ...


class FactStore(Protocol):
    """Facts: remembered, looked up, corrected."""

    def remember(
        self, facts: Sequence[NewFact], *, actor: Actor, once: Once | None = None
    ) -> tuple[Remembered, ...]:
        """Store all facts or none; an equal live one in the scope is confirmed instead.

        Raises:
            RetractedBefore: an equal fact was retracted there.
            IdempotencyConflict: the key came with another body.
        """
        ...

    def fact(self, fact_id: str, view: View) -> Fact | None:
        """Return a visible fact, whatever its lifecycle."""
        ...

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page, newest first."""
        ...

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        once: Once | None = None,
    ) -> Corrected:  # fmt: skip
        """Close a live fact: superseded when there is a replacement, else retracted.

        Raises:
            NotFound: no such fact.
            Conflict: the fact is closed already, or the replacement says the same.
            RetractedBefore: what the replacement says was retracted in the scope.
        """
        ...


class RecallStore(Protocol):
    """Ranked retrieval, receipts, and the usage they count."""

    def search(self, search: Search) -> tuple[Hit, ...]:
        """Return the best live facts by BM25, equal scores by id; empty when no term matches."""
        ...

    def recent(self, search: Search) -> tuple[Fact, ...]:
        """Return served facts whatever the query.

        Nearest scope, highest confidence, newest first.
        """
        ...

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the visible scopes, only named ones unless None, nearest first.

        Granted ones must exist; those of the own path are listed whether anybody wrote there.
        """
        ...

    def record_recall(self, new: NewReceipt, answer: Recalled, once: Once | None) -> Recalled:
        """Keep the receipt of a recall bound to a run and count its usage; durable when it returns.

        A repeat with the same key returns the first answer.
        """
        ...

    def record_recall_later(self, new: NewReceipt) -> None:
        """Keep a receipt within a second.

        Returns at once and is lost when the process dies before.
        """
        ...

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        """Return a receipt and its observer; the caller must check that it may be seen."""
        ...


class RunStore(Protocol):
    """The ledger: runs, their episodes, and what they count up to."""

    def put_run(self, run_id: str, run: RunIn, *, actor: Actor) -> Run:
        """Open, merge or close a run. Closing credits the facts that were in front of it, once.

        Raises:
            RunClosedOtherwise: it is closed with another outcome.
            Conflict: it belongs to another namespace or scope.
        """
        ...

    def run(self, run_id: str, view: View) -> Run | None:
        """Return a run whose scope is visible."""
        ...

    def list_runs(self, listing: RunListing) -> tuple[Run, ...]:
        """Return a page of visible runs, the one opened last first."""
        ...

    def add_episodes(
        self, run_id: str, episodes: Sequence[EpisodeIn], *, actor: Actor, once: Once | None = None
    ) -> EpisodesAccepted:
        """Append episodes in order; equal ones of the same attempt are counted as duplicates.

        Raises:
            NotFound: no such run.
            QuotaExceeded: the run's record is full.
        """
        ...

    def episodes(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[Episode, ...]:
        """Return a run's episodes by `seq`, those after `after`, at most `limit`."""
        ...

    def blueprint_stats(
        self, names: Sequence[BlueprintName], view: View
    ) -> tuple[BlueprintStats, ...]:
        """Count visible runs, in the order of the names."""
        ...


class ExtractionStore(Protocol):
    """The durable job of each run."""

    def accept_extraction(self, run_id: str, max_facts: int, *, actor: Actor) -> Extraction:
        """Record the wish for an extraction; a repeat returns the state of the first."""
        ...

    def extraction(self, run_id: str) -> Extraction | None:
        """Return the state of a run's extraction."""
        ...

    def extraction_limit(self, run_id: str) -> int:
        """Return how many facts were asked for at most."""
        ...

    def open_extractions(self, limit: int) -> tuple[Extraction, ...]:
        """Return what is pending, or was running when a process died; the oldest first."""
        ...

    def begin_extraction(self, run_id: str) -> Extraction:
        """Count one more attempt and say `running`."""
        ...

    def earlier_signatures(self, run_id: str, signatures: Sequence[str]) -> Mapping[str, int]:
        """Count episodes with these signatures in earlier runs of the same scope."""
        ...

    def finish_extraction(
        self, run_id: str, facts: Sequence[NewFact], reason: str | None, *, actor: Actor
    ) -> Extraction:
        """Store the facts and the state `done` together; does nothing when it is done already.

        A fact whose (subject, predicate) is live in the scope confirms that one; one whose equal or
        key was retracted there is left out, and the reason says so.
        """
        ...

    def fail_extraction(self, run_id: str, reason: str, *, retry: bool) -> Extraction:
        """Record why an attempt failed; without `retry` the state becomes `failed`."""
        ...


class ScopeStore(Protocol):
    """Scopes, their configuration and what they hold."""

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        """Declare a scope's configuration."""
        ...

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        """Return what was declared for exactly these paths; undeclared ones are absent."""
        ...

    def list_scopes(self, view: View) -> tuple[str, ...]:
        """Return the visible scopes by path, as `visible_scopes` does."""
        ...

    def delete_scope(self, path: str, *, actor: Actor) -> bool:
        """Retire exactly this path with its configuration and facts; False when there was none."""
        ...

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        """Count, in the order of the paths; usage of observers outside the view does not count."""
        ...


class PrincipalStore(Protocol):
    """Registered callers."""

    def put_principal(self, principal: PrincipalIn, *, actor: Actor) -> None:
        """Register or replace, by username. Another `realm_uid` than before starts the realm anew.

        Raises:
            Conflict: the realm's UID is one that was replaced before.
        """
        ...

    def principal(self, username: str) -> PrincipalIn | None:
        """Return a registration."""
        ...

    def principals(self) -> tuple[PrincipalIn, ...]:
        """Return all registrations, by username."""
        ...

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        """Forget a registration; False when there was none."""
        ...


class Store(
    FactStore, RecallStore, RunStore, ExtractionStore, ScopeStore, PrincipalStore, Protocol
):
    """Everything that the service keeps."""

    def identity(self) -> StoreId:
        """Return the store's id and epoch."""
        ...

    def check(self) -> None:
        """Return when the store can read and write.

        Raises:
            StoreUnavailable: with the reason.
        """
        ...

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        ...
