"""Port for the lifecycle of a fact after it was remembered."""

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
from knowledge_service.ports.queries import ActionContext, ReviewQuery


class FactLifecycleStore(Protocol):
    """The verbs of a fact, its history, and the review queue.

    Every verb raises `NotFound` for a fact that is not there and `Conflict` for one that is not in
    a state for it.
    """

    def retract(self, fact_id: str, order: ActionContext) -> Fact:
        """Close a live fact as wrong, and its promoted copies unless others confirmed them."""
        ...

    def restore(self, fact_id: str, order: ActionContext) -> Fact:
        """Make a closed fact live again."""
        ...

    def confirm(self, fact_id: str, order: ActionContext, session: str | None = None) -> Fact:
        """Add a confirmation; one by a person lifts the fact's flags."""
        ...

    def promote(self, fact_id: str, order: ActionContext) -> PromotionResult:
        """Copy a fact one level up, or confirm its equal there.

        Raises:
            PreviouslyRetracted: an equal fact was retracted there.
        """
        ...

    def approve(self, fact_id: str, order: ActionContext, edits: ApproveIn) -> ApprovalResult:
        """Approve a live fact, or a successor with edited words."""
        ...

    def reject(self, fact_id: str, order: ActionContext) -> Fact:
        """Reject a live fact: archived, and restorable."""
        ...

    def undo(self, fact_id: str, order: ActionContext) -> UndoResult:
        """Append the inverse of the last operation on a fact."""
        ...

    def erase(self, fact_id: str, order: ActionContext) -> ErasureResult:
        """Delete a fact's text from log, tables and index, with its promoted copies."""
        ...

    def history(self, fact_id: str, view: View) -> History | None:
        """Return a visible fact's versions and events; other facts only as far as visible."""
        ...

    def review_queue(self, query: ReviewQuery) -> tuple[Fact, ...]:
        """Return a page of live drafts and flagged facts."""
        ...

    def retain(self) -> int:
        """Archive what declared scopes hold beyond their bounds; return how many facts went."""
        ...

    def erase_deleted(self) -> int:
        """Erase some facts of scopes that were deleted for good; 0 when none is left."""
        ...

    def delete_old_receipts(self, cutoff: datetime) -> int:
        """Let go of receipts made before a moment, the audit's recalls; return how many went.

        Those of runs that are open stay. What they counted as usage stays counted.
        """
        ...
