"""The verbs on a fact: who may do what to which, then the store does it.

Confirming, retracting, restoring and undoing take the verb `write` in the fact's scope, promoting
takes `promote`, a review takes `review`, erasing takes `admin`. What a reviewer decided is not an
agent's to change, and an agent reviews nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.models import (
    ApprovalResult,
    ApproveIn,
    ConfirmIn,
    CorrectIn,
    CorrectionResult,
    ErasureResult,
    Fact,
    History,
    PromotionResult,
    ReviewPage,
    UndoResult,
    Verb,
)
from knowledge_service.domain import redaction
from knowledge_service.domain.access_control import PLATFORM, Principal, ScopeRange, lineage
from knowledge_service.errors import Forbidden
from knowledge_service.ports import Order, Queue
from knowledge_service.use_cases import authorization, fact_queries, fact_validation, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import Once, Store

_DECIDED = ("approved", "rejected")


def correct(
    store: Store, principal: Principal, fact_id: str, body: CorrectIn, once: Once | None
) -> CorrectionResult:
    """Close a fact that the caller may write to.

    Raises:
        NotFound: there is none that the caller may see.
        Forbidden: it may be seen, not corrected.
    """
    fact = fact_queries.get_changeable_fact(store, principal, fact_id)
    if not principal.has_verb("write", fact.scope):
        raise Forbidden(f"{principal.name} may read fact {fact_id} but not correct it")
    _refuse_decided(principal, fact, "correct")
    authorization.writable(store, fact.scope, principal)
    if body.replacement:
        fact_validation.refuse_secrets(store, fact.scope, body.replacement)
    reason = redaction.mask(body.reason)
    done = store.correct(
        fact.id, reason, body.replacement, actor=authorization.actor(principal), once=once
    )
    return done.model_copy(update=_visible_copies(store, principal, done))


def confirm(
    store: Store, principal: Principal, fact_id: str, body: ConfirmIn, once: Once | None
) -> Fact:
    """Add a confirmation.

    Raises:
        NotFound, Forbidden, ScopeReadOnly, Conflict: as every verb here.
    """
    fact = _for_writing(store, principal, fact_id, "confirm")
    order = _order(principal, body.reason or "", once)
    session = redaction.mask_known_formats(body.session) if body.session else None
    return store.confirm(fact.id, order, session)


def retract(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> Fact:
    """Say that a fact is wrong."""
    fact = _for_writing(store, principal, fact_id, "retract")
    _refuse_decided(principal, fact, "retract")
    return store.retract(fact.id, _order(principal, reason, once))


def restore(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> Fact:
    """Make a closed fact live again."""
    fact = _for_writing(store, principal, fact_id, "restore")
    _refuse_decided(principal, fact, "restore")
    return store.restore(fact.id, _order(principal, reason, once))


def undo(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> UndoResult:
    """Take the last operation on a fact back."""
    fact = _for_writing(store, principal, fact_id, "undo changes of")
    _refuse_decided(principal, fact, "undo changes of")
    found = store.undo(fact.id, _order(principal, reason, once))
    seen = (each for each in found.changed if store.fact(each, principal.view))
    return found.model_copy(update={"changed": tuple(seen)})


def promote(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> PromotionResult:
    """Copy a fact one level up; to the platform only a reviewer does."""
    fact = _with(store, principal, fact_id, verb="promote", doing="promote")
    above = lineage(fact.scope)[1:]
    if above:
        # What is there already decides the answer, so whoever does not see it gets none.
        authorization.readable(above[:1], principal)
    if above and above[0] == PLATFORM:
        _refuse_agents(principal, "promote facts to the platform")
        authorization.require(principal, "review", PLATFORM)
    return store.promote(fact.id, _order(principal, reason, once))


def approve(
    store: Store, principal: Principal, fact_id: str, body: ApproveIn, once: Once | None
) -> ApprovalResult:
    """Approve a fact, or edited words in its place."""
    fact = _with(store, principal, fact_id, verb="review", doing="review")
    _refuse_agents(principal, "review facts")
    for text in (body.content, body.title, *(body.tags or ())):
        if text:
            fact_validation.refuse_secrets(store, fact.scope, text)
    done = store.approve(fact.id, _order(principal, body.reason, once), body)
    return done.model_copy(update=_visible_copies(store, principal, done))


def reject(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> Fact:
    """Reject a fact."""
    fact = _with(store, principal, fact_id, verb="review", doing="review")
    _refuse_agents(principal, "review facts")
    return store.reject(fact.id, _order(principal, reason, once))


def erase(
    store: Store, principal: Principal, fact_id: str, reason: str, once: Once | None
) -> ErasureResult:
    """Erase a fact and its copies."""
    fact = _with(store, principal, fact_id, verb="admin", doing="erase")
    done = store.erase(fact.id, _order(principal, reason, once))
    # Each level up has at most one copy.
    widest = lineage(fact.scope)[: len(done.copies) + 1][-1]
    if principal.view.can_read_subtree(widest):
        return done
    derived = tuple(each for each in done.derived if store.fact(each, principal.view))
    return done.model_copy(update={"derived": derived, "links": None, "events": None})


def history(store: Store, principal: Principal, fact_id: str) -> History:
    """Return what became of a visible fact."""
    fact = fact_queries.get_visible_fact(store, principal, fact_id)
    found = store.history(fact.id, principal.view)
    if found is None:
        raise fact_queries.fact_not_found(fact_id)
    return found


def list_reviews(
    store: Store, principal: Principal, *, cursor: str | None, limit: int
) -> ReviewPage:
    """Return a page of what waits for the caller's review, newest first.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    before = pagination.decode(cursor)
    reaches = tuple(
        ScopeRange(grant.scope, grant.subtree)
        for grant in principal.grants
        if "review" in grant.verbs or "admin" in grant.verbs
    )
    waiting = store.review_queue(Queue(reaches, limit + 1, before)) if reaches else ()
    page, next_cursor = pagination.split_page(waiting, limit, lambda fact: fact.id)
    return ReviewPage(facts=page, cursor=next_cursor)


def _for_writing(store: Store, principal: Principal, fact_id: str, doing: str) -> Fact:
    fact = _with(store, principal, fact_id, verb="write", doing=doing)
    authorization.writable(store, fact.scope, principal)
    return fact


def _with(store: Store, principal: Principal, fact_id: str, *, verb: Verb, doing: str) -> Fact:
    # Who would review in vain is told so: the refusal says no more than that there is a draft.
    fact = fact_queries.get_changeable_fact(store, principal, fact_id, drafts=verb == "review")
    if not principal.has_verb(verb, fact.scope):
        raise Forbidden(f"{principal.name} may read fact {fact_id} but not {doing} it")
    return fact


def _refuse_agents(principal: Principal, doing: str) -> None:
    if principal.type == "agent":
        raise Forbidden(f"{principal.name} is an agent; only people and the operator {doing}")


def _order(principal: Principal, reason: str, once: Once | None) -> Order:
    return Order(authorization.actor(principal), redaction.mask(reason), once)


def _visible_copies(
    store: Store, principal: Principal, done: CorrectionResult | ApprovalResult
) -> dict[str, tuple[str, ...]]:
    """Return the copies that an answer names, without those that the caller may not read."""
    copies = {"copies_retracted": done.copies_retracted, "copies_flagged": done.copies_flagged}
    return {
        name: tuple(each for each in ids if store.fact(each, principal.view))
        for name, ids in copies.items()
    }


def _refuse_decided(principal: Principal, fact: Fact, doing: str) -> None:
    """Let pass unless an agent touches what a reviewer decided.

    Raises:
        Forbidden: it does.
    """
    if principal.type == "agent" and fact.review in _DECIDED:
        raise Forbidden(
            f"{principal.name} may not {doing} fact {fact.id}: its review is {fact.review};"
            " remember what you know instead, and a reviewer will see both"
        )
