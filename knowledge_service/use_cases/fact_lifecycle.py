"""The lifecycle of a fact: authorize an operation, then have the store do it.

Correcting, retracting, restoring and undoing need the verb `write` in the scope of the fact, or
`remember` if the caller is its author. Confirming needs `remember`, promoting `promote`, reviewing
`review`, erasing `admin`. Agents may not review, nor change a fact that a reviewer approved or
rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    Revised,
    UndoResult,
    Verb,
)
from knowledge_service.domain import redaction
from knowledge_service.domain.access_control import PLATFORM, ScopeRange, lineage
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden
from knowledge_service.ports import ActionContext, ReviewQuery
from knowledge_service.use_cases import authorization, fact_queries, fact_validation, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import IdempotencyKey, Store

_REVIEWED_STATES = ("approved", "rejected")


def correct(
    store: Store,
    principal: Principal,
    fact_id: str,
    body: CorrectIn,
    idempotency_key: IdempotencyKey | None,
) -> CorrectionResult:
    """Close a fact; a replacement becomes its successor.

    Raises:
        NotFound, Forbidden, ScopeReadOnly, Conflict: as for every operation of this module.
    """
    fact = check_change(store, principal, fact_id, "correct")
    if body.replacement:
        fact_validation.reject_secrets(store, fact.scope, body.replacement)
    reason = redaction.mask(body.reason)
    result = store.correct(
        fact.id,
        reason,
        body.replacement,
        actor=authorization.actor_of(principal),
        idempotency_key=idempotency_key,
    )
    return result.model_copy(update=visible_copies(store, principal, result))


def confirm(
    store: Store,
    principal: Principal,
    fact_id: str,
    body: ConfirmIn,
    idempotency_key: IdempotencyKey | None,
) -> Fact:
    """Confirm a fact.

    Raises:
        NotFound, Forbidden, ScopeReadOnly, Conflict: as for every operation of this module.
    """
    fact = _get_fact_with_verb(store, principal, fact_id, verb="remember", activity="confirm")
    authorization.authorize_write(store, fact.scope, principal, "remember")
    context = _action_context(principal, body.reason or "", idempotency_key)
    session = redaction.mask_known_formats(body.session) if body.session else None
    return store.confirm(fact.id, context, session)


def retract(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> Fact:
    """Retract a fact."""
    fact = check_change(store, principal, fact_id, "retract")
    return store.retract(fact.id, _action_context(principal, reason, idempotency_key))


def check_change(store: Store, principal: Principal, fact_id: str, activity: str) -> Fact:
    """Check that the caller may change a fact, and return it; errors name the activity.

    Raises:
        NotFound, Forbidden, ScopeReadOnly, Conflict: as for every operation of this module.
    """
    fact = fact_queries.get_changeable_fact(store, principal, fact_id)
    authorization.require_change(principal, fact, fact_id, activity)
    authorization.authorize_write(store, fact.scope, principal, "remember")
    _protect_reviewed_fact(principal, fact, activity)
    return fact


def may_change(principal: Principal) -> Callable[[Fact], bool]:
    """Return a predicate that tells, within a write, whether the caller may change a fact."""

    def test(fact: Fact) -> bool:
        try:
            authorization.require_change(principal, fact, fact.id, "change")
            _protect_reviewed_fact(principal, fact, "change")
        except Forbidden:
            return False
        return True

    return test


def restore(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> Fact:
    """Restore a closed fact."""
    fact = check_change(store, principal, fact_id, "restore")
    return store.restore(fact.id, _action_context(principal, reason, idempotency_key))


def undo(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> UndoResult:
    """Undo the last operation on a fact."""
    fact = check_change(store, principal, fact_id, "undo changes of")
    context = _action_context(principal, reason, idempotency_key)
    context = replace(context, may_change=may_change(principal))
    if not principal.has_verb("write", fact.scope):
        context = replace(context, actor=replace(context.actor, changes_only_own=True))
    result = store.undo(fact.id, context)
    visible_ids = (
        changed_id for changed_id in result.changed if store.fact(changed_id, principal.view)
    )
    return result.model_copy(update={"changed": tuple(visible_ids)})


def promote(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> PromotionResult:
    """Copy a fact to the next wider scope; only reviewers promote to the platform."""
    fact = _get_fact_with_verb(store, principal, fact_id, verb="promote", activity="promote")
    wider_scopes = lineage(fact.scope)[1:]
    if wider_scopes:
        # The answer depends on the facts there, so the caller must be able to read them.
        authorization.authorize_read(wider_scopes[:1], principal)
    if wider_scopes and wider_scopes[0] == PLATFORM:
        _reject_agents(principal, "promote facts to the platform")
        authorization.require_verb(principal, "review", PLATFORM)
    return store.promote(fact.id, _action_context(principal, reason, idempotency_key))


def approve(
    store: Store,
    principal: Principal,
    fact_id: str,
    body: ApproveIn,
    idempotency_key: IdempotencyKey | None,
) -> ApprovalResult:
    """Approve a fact, or an edited version of it."""
    fact = _get_fact_with_verb(store, principal, fact_id, verb="review", activity="review")
    _reject_agents(principal, "review facts")
    for text in (body.content, body.title, *(body.tags or ())):
        if text:
            fact_validation.reject_secrets(store, fact.scope, text)
    result = store.approve(fact.id, _action_context(principal, body.reason, idempotency_key), body)
    return result.model_copy(update=visible_copies(store, principal, result))


def reject(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> Fact:
    """Reject a fact."""
    fact = _get_fact_with_verb(store, principal, fact_id, verb="review", activity="review")
    _reject_agents(principal, "review facts")
    return store.reject(fact.id, _action_context(principal, reason, idempotency_key))


def erase(
    store: Store,
    principal: Principal,
    fact_id: str,
    reason: str,
    idempotency_key: IdempotencyKey | None,
) -> ErasureResult:
    """Erase a fact and its copies; a repeated request gets the result of the first one."""
    # The first request may have erased the fact, and its alias may name another now.
    earlier_result = store.erased(idempotency_key) if idempotency_key else None
    if earlier_result is not None:
        return earlier_result
    fact = _get_fact_with_verb(store, principal, fact_id, verb="admin", activity="erase")
    return store.erase(fact.id, _action_context(principal, reason, idempotency_key))


def visible_copies(
    store: Store, principal: Principal, result: CorrectionResult | ApprovalResult | Revised
) -> dict[str, tuple[str, ...]]:
    """Return the copies in a result that the caller may read."""
    copies = {"copies_retracted": result.copies_retracted, "copies_flagged": result.copies_flagged}
    return {
        name: tuple(copy_id for copy_id in ids if store.fact(copy_id, principal.view))
        for name, ids in copies.items()
    }


def get_history(store: Store, principal: Principal, fact_id: str) -> History:
    """Return the history of a visible fact."""
    fact = fact_queries.get_readable_fact(store, principal, fact_id)
    versions = store.history(fact.id, principal.view)
    if versions is None:
        raise fact_queries.fact_not_found(fact_id)
    return versions


def list_reviews(
    store: Store, principal: Principal, *, cursor: str | None, limit: int
) -> ReviewPage:
    """Return a page of what waits for the caller's review, newest first.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    position = pagination.decode(cursor)
    reaches = tuple(
        ScopeRange(grant.scope, grant.subtree)
        for grant in principal.grants
        if "review" in grant.verbs or "admin" in grant.verbs
    )
    waiting = store.review_queue(ReviewQuery(reaches, limit + 1, position)) if reaches else ()
    page, next_cursor = pagination.split_page(waiting, limit, lambda fact: fact.id)
    return ReviewPage(facts=page, cursor=next_cursor)


def _get_fact_with_verb(
    store: Store, principal: Principal, fact_id: str, *, verb: Verb, activity: str
) -> Fact:
    # A caller without the verb `review` gets Forbidden, which reveals only that a draft exists.
    fact = fact_queries.get_changeable_fact(store, principal, fact_id, drafts=verb == "review")
    if not principal.has_verb(verb, fact.scope):
        raise Forbidden(f"{principal.name} may read fact {fact_id} but not {activity} it")
    return fact


def _reject_agents(principal: Principal, activity: str) -> None:
    if principal.type == "agent":
        raise Forbidden(f"{principal.name} is an agent; only people and the operator {activity}")


def _action_context(
    principal: Principal, reason: str, idempotency_key: IdempotencyKey | None
) -> ActionContext:
    return ActionContext(authorization.actor_of(principal), redaction.mask(reason), idempotency_key)


def _protect_reviewed_fact(principal: Principal, fact: Fact, activity: str) -> None:
    """Require that no agent changes a fact that a reviewer decided on.

    Raises:
        Forbidden: an agent would change a reviewed fact.
    """
    if principal.type == "agent" and fact.review in _REVIEWED_STATES:
        raise Forbidden(
            f"{principal.name} may not {activity} fact {fact.id}: its review is {fact.review};"
            " remember what you know instead, and a reviewer will see both"
        )
