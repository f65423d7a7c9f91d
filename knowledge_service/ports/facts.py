"""Ports for facts, recalls and receipts."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from knowledge_client.models import (
    CorrectionResult,
    Fact,
    Recalled,
    Remembered,
)
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports.queries import (
    Actor,
    IdempotencyKey,
    Listing,
    NewReceipt,
    Search,
    SearchResult,
)


class FactStore(Protocol):
    """Port to store, read and correct facts."""

    def remember(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        """Store all facts or none. A fact that equals a live one of its scope confirms that one.

        Raises:
            PreviouslyRetracted: an equal fact was retracted there.
            IdempotencyConflict: the key was used with another body.
        """
        ...

    def rehearse(self, facts: Sequence[NewFact], *, actor: Actor) -> tuple[Remembered, ...]:
        """Return what `remember` would return, but store nothing. Ids of new facts are not valid.

        Raises:
            PreviouslyRetracted: an equal fact was retracted there.
        """
        ...

    def remembered(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[tuple[Remembered, ...]]:
        """Return an awaitable `remember` that does not block the event loop.

        The call itself does the expensive preparation, in whichever thread makes it.
        """
        ...

    def fact(self, fact_id: str, view: View, known_at: datetime | None = None) -> Fact | None:
        """Return a visible fact in any lifecycle state, as it is now or as it was at `known_at`."""
        ...

    def readable_facts(self, fact_ids: Sequence[str], view: View) -> frozenset[str]:
        """Return the ids of those facts that are visible, in any lifecycle state."""
        ...

    def current_versions(self, fact_ids: Sequence[str], view: View) -> Mapping[str, Fact]:
        """Return the visible live version of each fact that has one, by the id that was given.

        The facts may have been revised.
        """
        ...

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page of facts, newest first."""
        ...

    def facts_about(
        self, fact_ids: Sequence[str], view: View, *, kind: str, limit: int
    ) -> Mapping[str, tuple[Fact, ...]]:
        """Return the live, visible facts of a kind about each of some facts, by its id.

        They are in the order of their positions, at most `limit` about each. What is about one
        version of a revised fact is about every version.
        """
        ...

    def facts_named(
        self, namespace: str, values: Sequence[str], view: View
    ) -> tuple[tuple[str, Fact], ...]:
        """Return (value, fact) of every visible fact with one of these aliases."""
        ...

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:  # fmt: skip
        """Close a live fact: superseded when there is a replacement, else retracted.

        Raises:
            NotFound: no such fact.
            Conflict: the fact is closed already, or the replacement says the same.
            PreviouslyRetracted: a fact equal to the replacement was retracted in the scope.
        """
        ...


class RecallStore(Protocol):
    """Port for ranked retrieval, receipts, and the usage that receipts count."""

    def ranker(self) -> str:
        """Return the name of the ranker that searches, as receipts keep it."""
        ...

    def search(self, search: Search) -> SearchResult:
        """Return the best facts that pass the filters; none when no term matches."""
        ...

    def recent(self, search: Search) -> tuple[Fact, ...]:
        """Return facts that pass the filters, whatever the query.

        They are ordered by nearest scope, then highest confidence, then newest.
        """
        ...

    def visible_scopes(self, view: View, scopes: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the visible scopes, nearest first; with `scopes`, only those.

        Granted scopes must exist. Scopes of the reader's own path are listed even without facts.
        """
        ...

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
        """Store the receipt of a recall that belongs to a run and count its usage, durably.

        A repeat with the same key returns the first answer, whatever its reader may read now.
        """
        ...

    def record_recall_later(self, new: NewReceipt) -> None:
        """Store a receipt within a second, in the background.

        Returns at once. The receipt is lost if the process dies before it is stored.
        """
        ...

    def receipt(self, receipt_id: str) -> NewReceipt | None:
        """Return a receipt and its observer. The caller must check that the reader may see it."""
        ...
