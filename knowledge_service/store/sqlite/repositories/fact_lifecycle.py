"""The lifecycle of facts over tables: operations, history, review queue and retention."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from pydantic import TypeAdapter

from knowledge_client.models import (
    ApprovalResult,
    ApproveIn,
    ErasureResult,
    Fact,
    History,
    PromotionResult,
    UndoResult,
)
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import corrections, erase, promote, review, undo
from knowledge_service.ports import ActionContext, IdempotencyKey, ReviewQuery
from knowledge_service.store.sqlite.db.read_pool import ReadPool
from knowledge_service.store.sqlite.db.write_queue import WriteQueue
from knowledge_service.store.sqlite.projections import trigram_index
from knowledge_service.store.sqlite.repositories import (
    base,
    fact_history,
    fact_rows,
    receipts,
    scope_erasure,
    usage_erasure,
)
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork
from knowledge_service.store.sqlite.repositories.retention import Retention

_FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
_COPIED: TypeAdapter[PromotionResult] = TypeAdapter(PromotionResult)
_APPROVED: TypeAdapter[ApprovalResult] = TypeAdapter(ApprovalResult)
_UNDONE: TypeAdapter[UndoResult] = TypeAdapter(UndoResult)
_ERASED: TypeAdapter[ErasureResult] = TypeAdapter(ErasureResult)

# Commits per round, which take about a second: a shutdown waits for the current round.
_COMMITS = 50
_QUEUE = f"""{fact_rows.SELECT} WHERE f.scope_no IN (SELECT value FROM json_each(?1))
  AND (f.review = 'draft' OR f.flags <> '[]') AND f.lifecycle = 'live'
  AND (?2 IS NULL OR f.id < ?2) ORDER BY f.id DESC LIMIT ?3"""


class FactLifecycle(base.SqliteRepository):
    """The `FactLifecycleStore` port."""

    def __init__(self, readers: ReadPool, writer: WriteQueue) -> None:
        super().__init__(readers, writer)
        self._retention = Retention(readers, writer)

    def retract(self, fact_id: str, context: ActionContext) -> Fact:
        """Close a fact as wrong."""
        return self._changed(context, lambda uow: corrections.retract_fact(uow, fact_id, context))

    def restore(self, fact_id: str, context: ActionContext) -> Fact:
        """Make a closed fact live again."""
        return self._changed(context, lambda uow: corrections.restore_fact(uow, fact_id, context))

    def confirm(self, fact_id: str, context: ActionContext, session: str | None = None) -> Fact:
        """Add a confirmation."""
        return self._changed(
            context, lambda uow: corrections.confirm_fact(uow, fact_id, context, session)
        )

    def reject(self, fact_id: str, context: ActionContext) -> Fact:
        """Reject a live fact."""
        return self._changed(context, lambda uow: review.reject_fact(uow, fact_id, context))

    def promote(self, fact_id: str, context: ActionContext) -> PromotionResult:
        """Copy a fact one level up."""
        return self._idempotent(
            context.idempotency_key,
            _COPIED,
            lambda tx: promote.promote_fact(SqliteUnitOfWork(tx), fact_id, context),
        )

    def approve(self, fact_id: str, context: ActionContext, edits: ApproveIn) -> ApprovalResult:
        """Approve a live fact, or a successor with edits."""
        return self._idempotent(
            context.idempotency_key,
            _APPROVED,
            lambda tx: review.approve_fact(SqliteUnitOfWork(tx), fact_id, context, edits),
        )

    def undo(self, fact_id: str, context: ActionContext) -> UndoResult:
        """Undo the last operation on a fact."""
        return self._idempotent(
            context.idempotency_key,
            _UNDONE,
            lambda tx: undo.undo_last_operation(SqliteUnitOfWork(tx), fact_id, context),
        )

    def erase(self, fact_id: str, context: ActionContext) -> ErasureResult:
        """Erase a fact; return when no read can see its text, not even one that runs now."""
        with self._readers.snapshot() as connection:
            are_many = usage_erasure.are_many(connection, fact_id)
        while are_many and self._writer.submit(lambda tx: usage_erasure.forget_some(tx, fact_id)):
            pass
        result = self._idempotent(
            context.idempotency_key,
            _ERASED,
            lambda tx: erase.erase_fact(SqliteUnitOfWork(tx), fact_id, context),
        )
        return self._await_erasure(result)

    def erased(self, idempotency_key: IdempotencyKey) -> ErasureResult | None:
        """Read the stored answer of a key; return when no read can see the text."""
        with self._readers.snapshot() as connection:
            stored = base.read_stored_response(connection, idempotency_key, self._writer.now())
        return None if stored is None else self._await_erasure(_ERASED.validate_json(stored))

    def _await_erasure(self, result: ErasureResult) -> ErasureResult:
        self._readers.wait_for_earlier_snapshots(self._writer.erased_at_s)
        return result.model_copy(update={"on_disk": self._writer.erased_since_s is not None})

    def history(self, fact_id: str, view: View) -> History | None:
        """Read versions and events in one snapshot."""
        with self._readers.snapshot() as connection:
            return fact_history.history(connection, fact_id, view)

    def review_queue(self, query: ReviewQuery) -> tuple[Fact, ...]:
        """Return a page of the review queue."""
        with self._readers.bulk_connection() as connection:
            everything = View("platform", query.scope_ranges)
            scopes = [
                number
                for number, path in base.visible_scopes(connection, everything, None).items()
                if any(reach.covers(path) for reach in query.scope_ranges)
            ]
            bindings = (json.dumps(scopes), query.before_id, query.limit)
            return tuple(fact_rows.facts(connection, _QUEUE, bindings))

    def retain(self) -> int:
        """Archive facts beyond the retention bounds."""
        return self._retention.retain()

    def erase_deleted(self) -> int:
        """Erase facts of deleted scopes, a few in each commit, so that no write waits."""
        count = 0
        for _ in range(_COMMITS):
            erased_count = self._writer.submit(scope_erasure.erase_some)
            count += erased_count
            if not erased_count:
                break
        return count

    def merge_index(self) -> bool:
        """Merge a part of the index of substrings in a commit of some milliseconds."""
        return self._writer.submit(lambda tx: trigram_index.merge_some(tx.connection))

    def deleted_facts(self) -> int:
        """Return the number of facts of deleted scopes that are not erased yet."""
        with self._readers.snapshot() as connection:
            return scope_erasure.count(connection)

    def delete_old_receipts(self, cutoff: datetime) -> int:
        """Delete old receipts, some in each commit, so that no write waits for long."""
        moment, count = times.to_us(cutoff), 0
        while deleted_count := self._writer.submit(lambda tx: receipts.delete_receipts(tx, moment)):
            count += deleted_count
        return count

    def _changed(
        self, context: ActionContext, operation: Callable[[SqliteUnitOfWork], Fact]
    ) -> Fact:
        return self._idempotent(
            context.idempotency_key, _FACT, lambda tx: operation(SqliteUnitOfWork(tx))
        )
