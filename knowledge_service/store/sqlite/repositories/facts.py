"""The `FactStore` port over tables."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic import TypeAdapter

from kais import facts as kais_facts
from knowledge_client.models import CorrectionResult, Fact, Remembered
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.event_log import times
from knowledge_service.fact_operations import dry_run, lifecycle
from knowledge_service.ports import ActionContext, Actor, IdempotencyKey, Listing
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import aliases, base, fact_rows, fact_writes
from knowledge_service.store.sqlite.repositories.unit_of_work import SqliteUnitOfWork

_REMEMBERED: TypeAdapter[tuple[Remembered, ...]] = TypeAdapter(tuple[Remembered, ...])
_CORRECTED: TypeAdapter[CorrectionResult] = TypeAdapter(CorrectionResult)
_BY_ID = f"{fact_rows.SELECT} WHERE f.id = ? AND s.retired_at IS NULL"
# A reader without drafts does not see facts that were rejected since, either.
_BY_ID_THEN = f"""{fact_rows.select_as_of("?2")} WHERE f.id = ?1 AND s.retired_at IS NULL
  AND f.recorded_at <= ?2 AND (?3 OR f.review NOT IN {fact_rows.UNREVIEWED})"""
_LIST_FILTER = f"""f.scope_no IN (SELECT value FROM json_each(?1))
  AND (?2 IS NULL OR f.kind = ?2) AND (?3 IS NULL OR f.source_type = ?3)
  AND (?4 IS NULL OR f.id < ?4) AND (?8 OR f.review NOT IN {fact_rows.UNREVIEWED})"""
_LIST = f"""{fact_rows.SELECT} WHERE {_LIST_FILTER}
  AND (?5 IS NULL OR f.lifecycle = ?5) AND (?6 IS NULL OR f.review = ?6)
  AND (?7 IS NULL OR coalesce(f.valid_from, f.recorded_at) <= ?7)
  AND (?7 IS NULL OR f.valid_until IS NULL OR ?7 < f.valid_until)
  AND (?9 IS NULL OR EXISTS (SELECT 1 FROM fact_tag t
    WHERE t.scope_no = f.scope_no AND t.tag = ?9 AND t.fact_no = f.fact_no))
  ORDER BY f.id DESC LIMIT ?10"""
_LIST_THEN = f"""SELECT * FROM (
    {fact_rows.select_as_of("?9")} WHERE {_LIST_FILTER} AND f.recorded_at <= ?9)
  WHERE (?8 OR review NOT IN {fact_rows.UNREVIEWED})
  AND (?5 IS NULL OR lifecycle = ?5) AND (?6 IS NULL OR review = ?6)
  AND (?7 IS NULL OR coalesce(valid_from, recorded_at) <= ?7)
  AND (?7 IS NULL OR valid_until IS NULL OR ?7 < valid_until)
  ORDER BY id DESC"""


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

    def list_facts(self, listing: Listing) -> tuple[Fact, ...]:
        """Return a page of facts."""
        tag = kais_facts.normal_tag(listing.tag) if listing.tag else None
        with self._readers.bulk_connection() as connection:
            scopes = base.visible_scopes(connection, listing.view, listing.scopes)
            bindings = (
                json.dumps(sorted(scopes)), listing.kind, listing.source, listing.before_id,
                listing.lifecycle, listing.review, times.to_us(listing.valid_at),
                listing.view.drafts,
            )  # fmt: skip
            if listing.known_at is None:
                rows = fact_rows.facts(connection, _LIST, (*bindings, tag, listing.limit))
                return tuple(rows)
            past_facts = fact_rows.facts(
                connection, _LIST_THEN, (*bindings, times.to_us(listing.known_at))
            )
            tagged = (fact for fact in past_facts if tag is None or _has_tag(fact, tag))
            return tuple(islice(tagged, listing.limit))

    def correct(
        self, fact_id: str, reason: str, replacement: str | None, *, actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> CorrectionResult:  # fmt: skip
        """Close a fact and link its successor."""
        order = ActionContext(actor, reason, idempotency_key)
        return self._idempotent(
            idempotency_key,
            _CORRECTED,
            lambda tx: lifecycle.correct(SqliteUnitOfWork(tx), fact_id, replacement, order),
        )


def _remember_job(
    facts: Sequence[NewFact], actor: Actor, idempotency_key: IdempotencyKey | None
) -> Callable[[Transaction], tuple[Remembered, ...]]:
    prepared = fact_writes.prepare_facts(facts)
    if idempotency_key is None and facts and all(map(fact_writes.can_bulk_insert, facts)):
        return fact_writes.BulkRemember(facts, actor, prepared)

    def work(tx: Transaction) -> tuple[Remembered, ...]:
        stored = fact_writes.remember_all(tx, facts, actor, prepared)
        return aliases.name_all(tx, facts, stored, actor)

    return base.make_idempotent(idempotency_key, _REMEMBERED, work)


def _has_tag(fact: Fact, tag: str) -> bool:
    return tag in {kais_facts.normal_tag(fact_tag) for fact_tag in fact.tags}
