"""Port for the lifecycle of stored facts."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

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
from knowledge_service.ports.queries import ActionContext, IdempotencyKey, ReviewQuery


class FactLifecycleStore(Protocol):
    """Operations on one fact, its history, and the review queue.

    Every operation raises `NotFound` when the fact does not exist, and `Conflict` when the fact's
    state does not permit the operation.
    """

    def retract(self, fact_id: str, context: ActionContext) -> Fact:
        """Close a live fact as wrong, and its promoted copies unless others confirmed them."""
        ...

    def restore(self, fact_id: str, context: ActionContext) -> Fact:
        """Make a closed fact live again."""
        ...

    def confirm(self, fact_id: str, context: ActionContext, session: str | None = None) -> Fact:
        """Add a confirmation. A confirmation by a person removes the fact's flags."""
        ...

    def promote(self, fact_id: str, context: ActionContext) -> PromotionResult:
        """Copy a fact to the parent level, or confirm the equal fact there.

        Raises:
            PreviouslyRetracted: an equal fact was retracted there.
        """
        ...

    def approve(self, fact_id: str, context: ActionContext, edits: ApproveIn) -> ApprovalResult:
        """Approve a live fact, or with `edits` approve a successor that has these."""
        ...

    def reject(self, fact_id: str, context: ActionContext) -> Fact:
        """Reject a live fact: archive it. The fact can be restored."""
        ...

    def undo(self, fact_id: str, context: ActionContext) -> UndoResult:
        """Append the inverse of the last operation on a fact."""
        ...

    def erase(self, fact_id: str, context: ActionContext) -> ErasureResult:
        """Delete a fact's text, and that of its promoted copies, from log, tables and index.

        The result names only what the actor may see.
        """
        ...

    def erased(self, idempotency_key: IdempotencyKey) -> ErasureResult | None:
        """Return the result of the erasure with this key, or None; wait for reads as `erase` does.

        Raises:
            IdempotencyConflict: the key was used with another body.
        """
        ...

    def history(self, fact_id: str, view: View) -> History | None:
        """Return the versions and events of a visible fact.

        The history mentions other facts only as far as they are visible.
        """
        ...

    def review_queue(self, query: ReviewQuery) -> tuple[Fact, ...]:
        """Return a page of live drafts and flagged facts."""
        ...

    def retain(self) -> int:
        """Archive facts beyond the retention bounds of declared scopes; return their number.

        Raises:
            ExceptionGroup: it failed in some scopes, which the message names; the others are done.
        """
        ...

    def erase_deleted(self) -> int:
        """Erase some facts of permanently deleted scopes; return 0 when none is left."""
        ...

    def merge_index(self) -> bool:
        """Merge a part of the trigram index; return False if nothing is left to merge."""
        ...

    def delete_old_receipts(self, cutoff: datetime) -> int:
        """Delete receipts (the recalls of the audit log) made before `cutoff`; return their number.

        Receipts of open runs are kept. The usage that deleted receipts counted stays counted.
        """
        ...
