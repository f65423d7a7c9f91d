"""What becomes of facts, over tables: the verbs, the history, the review queue, retention."""

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
from knowledge_service.fact_operations import (
    erase,
    lifecycle,
    promote,
    review,
    undo,
)
from knowledge_service.ports import Order, Queue
from knowledge_service.store.sqlite.db.write_queue import Writer
from knowledge_service.store.sqlite.readers import Readers
from knowledge_service.store.sqlite.repositories import (
    base,
    fact_history,
    fact_rows,
    receipt_retention,
    scope_erasure,
    usage_erasure,
)
from knowledge_service.store.sqlite.repositories.retention import Retention
from knowledge_service.store.sqlite.repositories.unit_of_work import SqliteUnitOfWork

_FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
_COPIED: TypeAdapter[PromotionResult] = TypeAdapter(PromotionResult)
_APPROVED: TypeAdapter[ApprovalResult] = TypeAdapter(ApprovalResult)
_UNDONE: TypeAdapter[UndoResult] = TypeAdapter(UndoResult)
_ERASED: TypeAdapter[ErasureResult] = TypeAdapter(ErasureResult)

# Commits per round, which take a second or so: a shutdown waits for the current round.
_COMMITS = 50
_QUEUE = f"""{fact_rows.SELECT} WHERE f.scope_no IN (SELECT value FROM json_each(?1))
  AND (f.review = 'draft' OR f.flags <> '[]') AND f.lifecycle = 'live'
  AND (?2 IS NULL OR f.id < ?2) ORDER BY f.id DESC LIMIT ?3"""


class Lives(base.Part):
    """The `LifeStore` port."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        super().__init__(readers, writer)
        self._retention = Retention(readers, writer)

    def retract(self, fact_id: str, order: Order) -> Fact:
        """Close as wrong."""
        return self._changed(order, lambda uow: lifecycle.retract(uow, fact_id, order))

    def restore(self, fact_id: str, order: Order) -> Fact:
        """Make live again."""
        return self._changed(order, lambda uow: lifecycle.restore(uow, fact_id, order))

    def confirm(self, fact_id: str, order: Order, session: str | None = None) -> Fact:
        """Add a confirmation."""
        return self._changed(order, lambda uow: lifecycle.confirm(uow, fact_id, order, session))

    def reject(self, fact_id: str, order: Order) -> Fact:
        """Reject."""
        return self._changed(order, lambda uow: review.reject(uow, fact_id, order))

    def promote(self, fact_id: str, order: Order) -> PromotionResult:
        """Copy one level up."""
        return self._once(
            order.once, _COPIED, lambda tx: promote.promote(SqliteUnitOfWork(tx), fact_id, order)
        )

    def approve(self, fact_id: str, order: Order, edits: ApproveIn) -> ApprovalResult:
        """Approve."""
        return self._once(
            order.once,
            _APPROVED,
            lambda tx: review.approve(SqliteUnitOfWork(tx), fact_id, order, edits),
        )

    def undo(self, fact_id: str, order: Order) -> UndoResult:
        """Take back."""
        return self._once(
            order.once, _UNDONE, lambda tx: undo.undo(SqliteUnitOfWork(tx), fact_id, order)
        )

    def erase(self, fact_id: str, order: Order) -> ErasureResult:
        """Erase; return when no read, including those under way, can see the text any more."""
        with self._readers.snapshot() as connection:
            are_many = usage_erasure.are_many(connection, fact_id)
        while are_many and self._writer.submit(lambda tx: usage_erasure.forget_some(tx, fact_id)):
            pass
        erased = self._once(
            order.once, _ERASED, lambda tx: erase.erase(SqliteUnitOfWork(tx), fact_id, order)
        )
        self._readers.wait_for_open()
        return erased.model_copy(update={"on_disk": self._writer.erased_since_s is not None})

    def history(self, fact_id: str, view: View) -> History | None:
        """Read versions and events in one snapshot."""
        with self._readers.snapshot() as connection:
            return fact_history.history(connection, fact_id, view)

    def review_queue(self, queue: Queue) -> tuple[Fact, ...]:
        """List a page."""
        with self._readers.browsing() as connection:
            everything = View("platform", queue.reaches)
            scopes = [
                number
                for number, path in base.scopes_seen(connection, everything, None).items()
                if any(reach.covers(path) for reach in queue.reaches)
            ]
            asked = (json.dumps(scopes), queue.before, queue.limit)
            return tuple(fact_rows.facts(connection, _QUEUE, asked))

    def retain(self) -> int:
        """Archive what is beyond the bounds."""
        return self._retention.retain()

    def erase_deleted(self) -> int:
        """Erase facts of deleted scopes, a portion to a commit, so that no write waits."""
        count = 0
        for _ in range(_COMMITS):
            went = self._writer.submit(scope_erasure.erase_some)
            count += went
            if not went:
                break
        return count

    def deleted_facts(self) -> int:
        """Return how many facts of deleted scopes are still to be erased."""
        with self._readers.snapshot() as connection:
            return scope_erasure.count(connection)

    def forget_recalls(self, before: datetime) -> int:
        """Let go of old receipts, a portion to a commit, so that no write waits for long."""
        moment, count = times.to_us(before), 0
        while went := self._writer.submit(lambda tx: receipt_retention.forget_recalls(tx, moment)):
            count += went
        return count

    def _changed(self, order: Order, work: Callable[[SqliteUnitOfWork], Fact]) -> Fact:
        return self._once(order.once, _FACT, lambda tx: work(SqliteUnitOfWork(tx)))
