"""The `FactStore` port over tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from knowledge_client.models import CorrectionResult, Fact, Remembered
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import corrections, dry_run, names
from knowledge_service.ports import ActionContext, Actor, IdempotencyKey, Listing
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import (
    base,
    fact_batch_writes,
    fact_listings,
    fact_rows,
)
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork

_REMEMBERED: TypeAdapter[tuple[Remembered, ...]] = TypeAdapter(tuple[Remembered, ...])
_CORRECTED: TypeAdapter[CorrectionResult] = TypeAdapter(CorrectionResult)
_BY_ID = f"{fact_rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
_ACCESS_BY_IDS = f"""SELECT f.id, s.path, f.review {fact_rows.FROM}
  WHERE f.id IN (SELECT value FROM json_each(?1)) AND s.retired_at IS NULL"""
# A reader without drafts does not see facts that were rejected since, either.
_BY_ID_THEN = f"""{fact_rows.select_as_of("?2")} WHERE f.id = ?1 AND s.retired_at IS NULL
  AND f.recorded_at <= ?2 AND (?3 OR f.review NOT IN {fact_rows.UNREVIEWED})"""


class Facts(base.SqliteRepository):
    """The `FactStore` port."""

    def remember(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[Remembered, ...]:
        """Store all facts or none."""
        return self._writer.submit(_remember_job(facts, actor, idempotency_key))

    def rehearse(self, facts: Sequence[NewFact], *, actor: Actor) -> tuple[Remembered, ...]:
        """Store all facts or none, and roll back."""
        try:
            return self._writer.submit(dry_run.roll_back_after(_remember_job(facts, actor, None)))
        except dry_run.DryRunRollback as rollback:
            results: tuple[Remembered, ...] = rollback.answer
            return results

    def remembered(
        self,
        facts: Sequence[NewFact],
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[tuple[Remembered, ...]]:
        """Prepare the facts now; return an awaitable that stores all or none."""
        return self._writer.submit_async(_remember_job(facts, actor, idempotency_key))

    def fact(self, fact_id: str, view: View, known_at: datetime | None = None) -> Fact | None:
        """Return one visible fact."""
        query: tuple[str, tuple[Any, ...]] = (_BY_ID, (fact_id,))
        if known_at is not None:
            query = (_BY_ID_THEN, (fact_id, times.to_us(known_at), view.drafts))
        with self._readers.snapshot() as connection:
            for fact in fact_rows.facts(connection, *query):
                return fact if view.can_read_fact(fact.scope, fact.review) else None
        return None

    def readable_facts(self, fact_ids: Sequence[str], view: View) -> frozenset[str]:
        """Return the ids of visible facts."""
        with self._readers.snapshot() as connection:
            rows: Any = connection.execute(_ACCESS_BY_IDS, (json_list(list(fact_ids)),))
            return frozenset(
                fact_id for fact_id, scope, review in rows if view.can_read_fact(scope, review)
            )

    def current_versions(self, fact_ids: Sequence[str], view: View) -> Mapping[str, Fact]:
        """Return the live version of each fact."""
        with self._readers.snapshot() as connection:
            return fact_listings.current_versions(connection, fact_ids, view)

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page of facts."""
        with self._readers.bulk_connection() as connection:
            return fact_listings.read_page(connection, listing)

    def facts_about(
        self, fact_ids: Sequence[str], view: View, *, kind: str, limit: int
    ) -> Mapping[str, tuple[Fact, ...]]:
        """Return the facts about each of some facts."""
        with self._readers.bulk_connection() as connection:
            return fact_listings.about_several(connection, fact_ids, view, kind=kind, limit=limit)

    def facts_named(
        self, namespace: str, values: Sequence[str], view: View
    ) -> tuple[tuple[str, Fact], ...]:
        """Return every visible fact with one of some aliases."""
        with self._readers.snapshot() as connection:
            return tuple(fact_listings.named(connection, namespace, values, view))

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:  # fmt: skip
        """Close a fact and link its successor."""
        context = ActionContext(actor, reason, idempotency_key)
        return self._idempotent(
            idempotency_key,
            _CORRECTED,
            lambda tx: corrections.correct_fact(
                SqliteUnitOfWork(tx), fact_id, replacement, context
            ),
        )


def _remember_job(
    facts: Sequence[NewFact], actor: Actor, idempotency_key: IdempotencyKey | None
) -> Callable[[Transaction], tuple[Remembered, ...]]:
    prepared = fact_batch_writes.prepare_facts(facts)
    if idempotency_key is None and facts and all(map(fact_batch_writes.can_bulk_insert, facts)):
        return fact_batch_writes.BulkRemember(facts, actor, prepared)

    def work(tx: Transaction) -> tuple[Remembered, ...]:
        stored = fact_batch_writes.remember_all(tx, facts, actor, prepared)
        return names.assign_aliases_separately(SqliteUnitOfWork(tx), facts, stored, actor)

    return base.make_idempotent(idempotency_key, _REMEMBERED, work)
