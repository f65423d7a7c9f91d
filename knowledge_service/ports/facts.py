"""Ports for facts, recalls and receipts."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
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
    """Facts: remembered, looked up, corrected."""

    def remember(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        """Store all facts or none; an equal live one in the scope is confirmed instead.

        Raises:
            PreviouslyRetracted: an equal fact was retracted there.
            IdempotencyConflict: the key came with another body.
        """
        ...

    def rehearse(self, facts: Sequence[NewFact], *, actor: Actor) -> tuple[Remembered, ...]:
        """Return what `remember` would answer, and keep nothing; ids of new facts mean nothing.

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
        """Do what `remember` does; awaited, it does not block the event loop.

        What costs time before is done by the call, in any thread.
        """
        ...

    def fact(self, fact_id: str, view: View, known_at: datetime | None = None) -> Fact | None:
        """Return a visible fact, whatever its lifecycle, as it is or as it was known then."""
        ...

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page, newest first."""
        ...

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:  # fmt: skip
        """Close a live fact: superseded when there is a replacement, else retracted.

        Raises:
            NotFound: no such fact.
            Conflict: the fact is closed already, or the replacement says the same.
            PreviouslyRetracted: what the replacement says was retracted in the scope.
        """
        ...


class RecallStore(Protocol):
    """Ranked retrieval, receipts, and the usage they count."""

    def search(self, search: Search) -> SearchResult:
        """Return the best served facts; none when no term matches."""
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

    def record_recall(
        self, new: NewReceipt, answer: Recalled, idempotency_key: IdempotencyKey | None
    ) -> Recalled:
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
