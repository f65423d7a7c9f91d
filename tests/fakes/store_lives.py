"""What becomes of facts in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from knowledge_client.models import (
    ActResult,
    ApprovalResult,
    ApproveIn,
    ErasureResult,
    Fact,
    History,
    HistoryEntry,
    PromotionResult,
    Revised,
    UndoResult,
)
from knowledge_service.domain import retention, run_statistics
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import (
    archive,
    corrections,
    erase,
    perform,
    promote,
    review,
    revise,
    undo,
)
from knowledge_service.ports import ActionContext, IdempotencyKey, NewReceipt, ReviewQuery
from knowledge_service.ports.operations import StoreAct
from tests.fakes.store_base import Base
from tests.fakes.store_unit_of_work import MemoryUnitOfWork

_OTHERS = ("from", "to", "origin", "copy")


class Lives(Base):
    """The `LifeStore` port."""

    def retract(self, fact_id: str, context: ActionContext) -> Fact:
        return self._once(
            context.idempotency_key,
            lambda: corrections.retract_fact(MemoryUnitOfWork(self), fact_id, context),
        )

    def restore(self, fact_id: str, context: ActionContext) -> Fact:
        return self._once(
            context.idempotency_key,
            lambda: corrections.restore_fact(MemoryUnitOfWork(self), fact_id, context),
        )

    def confirm(self, fact_id: str, context: ActionContext, session: str | None = None) -> Fact:
        return self._once(
            context.idempotency_key,
            lambda: corrections.confirm_fact(MemoryUnitOfWork(self), fact_id, context, session),
        )

    def reject(self, fact_id: str, context: ActionContext) -> Fact:
        return self._once(
            context.idempotency_key,
            lambda: review.reject_fact(MemoryUnitOfWork(self), fact_id, context),
        )

    def promote(self, fact_id: str, context: ActionContext) -> PromotionResult:
        return self._once(
            context.idempotency_key,
            lambda: promote.promote_fact(MemoryUnitOfWork(self), fact_id, context),
        )

    def approve(self, fact_id: str, context: ActionContext, edits: ApproveIn) -> ApprovalResult:
        return self._once(
            context.idempotency_key,
            lambda: review.approve_fact(MemoryUnitOfWork(self), fact_id, context, edits),
        )

    def undo(self, fact_id: str, context: ActionContext) -> UndoResult:
        return self._once(
            context.idempotency_key,
            lambda: undo.undo_last_operation(MemoryUnitOfWork(self), fact_id, context),
        )

    def perform(self, acts: Sequence[StoreAct], context: ActionContext) -> tuple[ActResult, ...]:
        return self._once(
            context.idempotency_key,
            lambda: perform.perform_acts(MemoryUnitOfWork(self), acts, context),
        )

    def revise(self, fact_id: str, changes: Mapping[str, Any], context: ActionContext) -> Revised:
        return self._once(
            context.idempotency_key,
            lambda: revise.revise_fact(MemoryUnitOfWork(self), fact_id, changes, context),
        )

    def performed(self, idempotency_key: IdempotencyKey) -> tuple[ActResult, ...] | None:
        return cast("tuple[ActResult, ...] | None", self._stored_answer(idempotency_key))

    def erased(self, idempotency_key: IdempotencyKey) -> ErasureResult | None:
        return cast("ErasureResult | None", self._stored_answer(idempotency_key))

    def _stored_answer(self, idempotency_key: IdempotencyKey) -> object:
        self._check()
        self._drop_expired_answers()
        if (idempotency_key.principal, idempotency_key.key) not in self._answers:
            return None
        return self._once(idempotency_key, object)

    def erase(self, fact_id: str, context: ActionContext) -> ErasureResult:
        def work() -> ErasureResult:
            self.erased_at_s = time.monotonic()
            return erase.erase_fact(MemoryUnitOfWork(self), fact_id, context)

        return self._once(context.idempotency_key, work)

    def history(self, fact_id: str, view: View) -> History | None:
        self._check()
        row = self.row(fact_id)
        if row is None or not self.visible(fact_id, view):
            return None
        past = [v for v in self.book.past.get(fact_id, []) if v.since < v.until]
        since = [v.since for v in past] + [self.book.changed_at[fact_id]]
        return History(
            fact_id=fact_id,
            versions=(*(v.fact for v in past), row.fact),
            known_from=tuple(times.from_us(at) for at in since),
            entries=tuple(self._entries(fact_id, view)),
        )

    def _entries(self, fact_id: str, view: View) -> list[HistoryEntry]:
        result = []
        for event in self.book.log:
            for remaining_part in event.remaining_parts():
                others = [remaining_part[name] for name in _OTHERS if name in remaining_part]
                if remaining_part.get("fact") == fact_id or fact_id in others:
                    observed = tuple(o for o in others if o != fact_id and self.visible(o, view))
                    if not observed and "fact" not in remaining_part and set(others) != {fact_id}:
                        continue
                    value: dict[str, Any] = remaining_part.get("set", {})
                    result.append(
                        HistoryEntry(
                            type=event.type,
                            actor=event.actor,
                            at=times.from_us(event.at),
                            reason=remaining_part.get("reason") or value.get("closed_reason"),
                            set=value,
                            facts=observed,
                        )
                    )
        return result

    def review_queue(self, query: ReviewQuery) -> tuple[Fact, ...]:
        self._check()
        facts = [
            row.fact
            for scope in self._scopes.values()
            if any(reach.covers(scope.path) for reach in query.scope_ranges)
            for row in scope.rows
            if row.fact.lifecycle == "live"
            and (row.fact.review == "draft" or row.fact.flags)
            and (query.before_id is None or row.fact.id < query.before_id)
        ]
        facts.sort(key=lambda fact: fact.id, reverse=True)
        return tuple(facts[: query.limit])

    def delete_old_receipts(self, cutoff: datetime) -> int:
        with self._lock:
            self._check()
            old = [
                key
                for key, new in self._receipts.items()
                if new.receipt.known_at < cutoff and not self._is_open(new)
            ]
            for key in old:
                del self._receipts[key]
            return len(old)

    def _is_open(self, new: NewReceipt) -> bool:
        run = self._run_of(new)
        return run is not None and run.outcome is None

    def erase_deleted(self) -> int:
        with self._lock:
            waiting, self._to_erase = self._to_erase, []
            for fact_id, path, actor in waiting:
                uow = MemoryUnitOfWork(self)
                deleted_item = (fact_id, *erase.find_copies(uow, fact_id))
                uow.erase(deleted_item, actor=actor, reason=f"the scope {path} was deleted")
            return len(waiting)

    def merge_index(self) -> bool:
        return False

    def retain(self) -> int:
        with self._lock:
            self._check()
            count = 0
            for scope in self._scopes.values():
                if scope.config is None:
                    continue
                live = [row.fact for row in scope.rows if row.fact.lifecycle == "live"]
                settings = scope.config.retention
                chosen = retention.choose_for_archive(
                    [self._candidate(fact) for fact in live],
                    retention.surplus(len(live), settings),
                    settings,
                    self.moment(),
                )
                archive.archive(MemoryUnitOfWork(self), scope.path, chosen)
                count += len(chosen)
            return count

    def _candidate(self, fact: Fact) -> retention.Candidate:
        output = self.book.confirmations.get(fact.id, [])
        since = max([fact.recorded_at, *(times.from_us(at) for _, at in output)])
        used_fact_usage = self._fact_usage
        receipts = {
            fact_id
            for new in self._receipts.values()
            if self._is_open(new)
            for fact_id in new.receipt.facts
        }
        return retention.Candidate(
            fact_id=fact.id,
            confidence=fact.confidence,
            since=since,
            usefulness=run_statistics.usefulness(
                used_fact_usage[(fact.id, "succeeded")], used_fact_usage[(fact.id, "failed")]
            ),
            expires_at=fact.expires_at,
            is_protected=fact.review == "approved"
            or fact.id in receipts
            or any(promotion.copy == fact.id for promotion in self.book.promotions.values()),
        )
