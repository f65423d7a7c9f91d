"""Approves and rejects facts."""

from __future__ import annotations

from typing import Any

from knowledge_client.models import ApprovalResult, ApproveIn, Fact, Revised
from knowledge_service.domain import closure_messages
from knowledge_service.domain import facts as domain
from knowledge_service.domain.access_control import UNREVIEWED
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict
from knowledge_service.fact_transactions import close_with_copies, names, revise, store_fact
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext


def approve_fact(
    uow: FactUnitOfWork, fact_id: str, context: ActionContext, edits: ApproveIn
) -> ApprovalResult:
    """Approve a live fact; with another text, title or tags, approve a successor instead.

    With only another title or other tags, the successor is a revision: it takes over the links.
    A draft takes its key now: it supersedes the facts of the key, or one of them supersedes it. A
    person's approval removes the flags; an approval by the service's own accounts does not.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is not live, is approved already, or the edits change nothing; or its
            text stays and it is no longer valid.
    """
    uow.begin()
    fact = _require_reviewable(uow, fact_id, "approved")
    if edits.content is None and edits.title is None and edits.tags is None:
        _approve(uow, fact, context)
        return ApprovalResult(fact=require_fact(uow, fact_id))
    new = domain.edited_successor(fact, edits, context.actor.name)
    if not domain.is_edited(fact, new):
        raise Conflict(f"the edits of fact {fact_id} change nothing; approve it as it is")
    changes = edits.model_dump(exclude={"reason"}, exclude_none=True, mode="json")
    _record_review(uow, fact, context, "approved", {}, edits=changes)
    if new.content_hash == domain.hash_of_fact(fact):
        values = {"title": new.title, "content": new.content, "tags": new.tags}
        revised = revise.revise_within_operation(uow, fact_id, values, context)
    else:
        revised = _replace_text(uow, fact, new, context)
    _approve(uow, require_fact(uow, revised.successor_id), context)
    return ApprovalResult(
        fact=require_fact(uow, revised.successor_id),
        replaced=fact_id,
        copies_retracted=revised.copies_retracted,
        copies_flagged=revised.copies_flagged,
    )


def reject_fact(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> Fact:
    """Reject a live fact: archive it, so that it can be restored, and withdraw its copies.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is not live, or is rejected already.
    """
    uow.begin()
    fact = _require_reviewable(uow, fact_id, "rejected")
    changes = {
        "review": "rejected", "lifecycle": "archived", "closed_at": uow.at_us,
        "closed_reason": context.reason, "closed_by": context.actor.name,
    }  # fmt: skip
    _record_review(uow, fact, context, "rejected", changes)
    close_with_copies.withdraw_copies(
        uow, fact_id, context, cause="rejected", valid_until_us=uow.at_us
    )
    return require_fact(uow, fact_id)


def _replace_text(uow: FactUnitOfWork, fact: Fact, new: NewFact, context: ActionContext) -> Revised:
    """Replace a fact by one with another text, which does not take over its links."""
    close_with_copies.close_fact(
        uow, fact, "superseded", context.reason, context.actor, valid_until_us=uow.at_us
    )
    withdrawal = close_with_copies.withdraw_copies(
        uow, fact.id, context, cause="corrected", valid_until_us=uow.at_us
    )
    stored = store_fact.store_within_transaction(uow, new, context.actor)
    store_fact.link_facts(
        uow, stored.fact_id, fact.id, "supersedes", scope=fact.scope, actor=context.actor
    )
    names.pass_on_aliases(uow, fact, new, stored.fact_id, context.actor)
    return Revised(
        fact_id=fact.id,
        successor_id=stored.fact_id,
        copies_retracted=withdrawal.retracted,
        copies_flagged=withdrawal.flagged,
    )


def _approve(uow: FactUnitOfWork, fact: Fact, context: ActionContext) -> None:
    _record_review(uow, fact, context, "approved", _approval_changes(context))
    if fact.review in UNREVIEWED:
        store_fact.take_key(uow, fact, context.actor)


def _approval_changes(context: ActionContext) -> dict[str, Any]:
    changes: dict[str, Any] = {"review": "approved"}
    return changes | {"flags": []} if context.actor.type == "human" else changes


def _require_reviewable(uow: FactUnitOfWork, fact_id: str, decision: str) -> Fact:
    fact = require_fact(uow, fact_id)
    if fact.lifecycle != "live":
        raise Conflict(f"fact {fact_id} is {closure_messages.describe_closure(fact, 'already')}")
    if fact.review == decision and not fact.flags:
        raise Conflict(f"fact {fact_id} is {decision} already")
    return fact


def _record_review(
    uow: FactUnitOfWork, fact: Fact, context: ActionContext, decision: str, changes: dict[str, Any],
    *, edits: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    part = {
        "fact": fact.id, "decision": decision, "actor_type": context.actor.type,
        "reason": context.reason, "set": changes,
    }  # fmt: skip
    if edits is not None:
        part["edits"] = edits
    uow.record("fact.reviewed", scope=fact.scope, actor=context.actor, parts=[part])
