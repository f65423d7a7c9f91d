"""Corrects, retracts, restores and confirms facts."""

from __future__ import annotations

from typing import Any

from knowledge_client.models import CorrectionResult, Fact
from knowledge_service.domain import closure_messages
from knowledge_service.domain import facts as domain
from knowledge_service.domain.access_control import UNREVIEWED
from knowledge_service.errors import Conflict, Forbidden
from knowledge_service.fact_transactions import close_with_copies, names, store_fact
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext


def correct_fact(
    uow: FactUnitOfWork, fact_id: str, replacement: str | None, context: ActionContext
) -> CorrectionResult:
    """Close a live fact: superseded when there is a replacement, else retracted.

    Its promoted copies are withdrawn, or flagged when others confirmed them. The successor needs
    its own evidence to be promoted.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is closed already, or the replacement equals it.
        PreviouslyRetracted: a fact equal to the replacement was retracted in the scope.
    """
    if replacement is None:
        withdrawal = _close_as_retracted(uow, fact_id, context)
        return _correction_result(fact_id, None, withdrawal)
    uow.begin()
    old = _require_live(uow, fact_id)
    new = domain.replacement(old, replacement, context.actor.name, context.actor.author)
    if new.content_hash == domain.hash_of_fact(old):
        raise Conflict(f"the replacement of fact {fact_id} says the same; change the text")
    close_with_copies.close_fact(
        uow, old, "superseded", context.reason, context.actor, valid_until_us=uow.at_us
    )
    withdrawal = close_with_copies.withdraw_copies(
        uow, fact_id, context, cause="corrected", valid_until_us=uow.at_us
    )
    successor = store_fact.store_within_transaction(uow, new, context.actor)
    store_fact.link_facts(
        uow, successor.fact_id, fact_id, "supersedes", scope=old.scope, actor=context.actor
    )
    names.pass_on_aliases(uow, old, new, successor.fact_id, context.actor)
    return _correction_result(fact_id, successor.fact_id, withdrawal)


def retract_fact(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> Fact:
    """Retract a wrong fact, and its promoted copies unless others confirmed them.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is closed already.
    """
    _close_as_retracted(uow, fact_id, context)
    return require_fact(uow, fact_id)


def retract_within_operation(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> None:
    """Retract a fact as part of an operation that has begun.

    Raises:
        NotFound, Conflict: as for `retract_fact`.
    """
    _close_within_operation(uow, fact_id, context)


def restore_fact(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> Fact:
    """Make a closed fact live again.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is live, or another live fact is equal or holds its key.
        Forbidden: an agent restores what a reviewer rejected or replaced, or what a person closed.
        QuotaExceeded: an agent restores the fact in a full scope.
    """
    uow.begin()
    fact = require_fact(uow, fact_id)
    if fact.lifecycle == "live":
        raise Conflict(f"fact {fact_id} is live; there is nothing to restore")
    if context.actor.type == "agent":
        _require_agent_may_restore(uow, fact, context.actor.name)
    equal = uow.equal(fact.scope, domain.hash_of_fact(fact))
    if equal and equal.lifecycle == "live":
        raise Conflict(f"fact {equal.id} is live and says the same; confirm that one")
    holder = _live_key_holder(uow, fact)
    if holder:
        raise Conflict(
            f"fact {holder.id} is live and holds the same subject and predicate;"
            " retract or correct that one first"
        )
    names.require_aliases_free(uow, fact, context.actor)
    if context.actor.is_bounded:
        uow.require_room(fact.scope)
    # Validity that ended with the closing continues; an end that the author set stays.
    (valid_until_us,) = uow.ended_live(fact_id) or (None,)
    changes = {
        "lifecycle": "live", "closed_at": None, "closed_reason": None, "closed_by": None,
        "valid_until": valid_until_us,
    }  # fmt: skip
    part = {"fact": fact_id, "reason": context.reason, "set": changes}
    uow.record("fact.restored", scope=fact.scope, actor=context.actor, parts=[part])
    return require_fact(uow, fact_id)


def confirm_fact(
    uow: FactUnitOfWork, fact_id: str, context: ActionContext, session: str | None
) -> Fact:
    """Add a confirmation. One by a person removes the flags that exclude a fact from injection.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is not live.
    """
    uow.begin()
    fact = _require_live(uow, fact_id)
    changes: dict[str, Any] = {"flags": []} if context.actor.type == "human" and fact.flags else {}
    part = {"fact": fact_id, "session": session, "set": changes}
    if context.reason:
        part["reason"] = context.reason
    uow.record("fact.confirmed", scope=fact.scope, actor=context.actor, parts=[part])
    return require_fact(uow, fact_id)


def _close_as_retracted(
    uow: FactUnitOfWork, fact_id: str, context: ActionContext
) -> close_with_copies.Withdrawal:
    uow.begin()
    return _close_within_operation(uow, fact_id, context)


def _close_within_operation(
    uow: FactUnitOfWork, fact_id: str, context: ActionContext
) -> close_with_copies.Withdrawal:
    fact = _require_live(uow, fact_id)
    close_with_copies.close_fact(
        uow, fact, "retracted", context.reason, context.actor, valid_until_us=uow.at_us
    )
    return close_with_copies.withdraw_copies(
        uow, fact_id, context, cause="retracted", valid_until_us=uow.at_us
    )


def _correction_result(
    fact_id: str, successor: str | None, withdrawal: close_with_copies.Withdrawal
) -> CorrectionResult:
    return CorrectionResult(
        fact_id=fact_id,
        replacement_id=successor,
        copies_retracted=withdrawal.retracted,
        copies_flagged=withdrawal.flagged,
    )


def _require_live(uow: FactUnitOfWork, fact_id: str) -> Fact:
    fact = require_fact(uow, fact_id)
    if fact.lifecycle != "live":
        raise Conflict(f"fact {fact_id} is {closure_messages.describe_closure(fact, 'already')}")
    return fact


def _require_agent_may_restore(uow: FactUnitOfWork, fact: Fact, agent: str) -> None:
    """Check that neither a reviewer nor a person decided against the fact.

    Their decision stays in force after the fact that replaced this one is closed.

    Raises:
        Forbidden: a reviewer approved another fact in its place, or rejected or replaced its text,
            or a person closed it.
    """
    refused = f"{agent} may not restore fact {fact.id}"
    successors = _live_successors(uow, fact.id)
    approved = next((successor for successor in successors if successor.review == "approved"), None)
    if approved:
        raise Forbidden(
            f"{refused}: a reviewer approved fact {approved.id} in its place;"
            " remember what you know instead"
        )
    decision = uow.decision(fact.scope, domain.hash_of_fact(fact))
    if decision and decision.verdict != "approved":
        raise Forbidden(
            f"{refused}: a reviewer {decision.verdict} its text; remember what you know instead"
        )
    closer = uow.closer(fact.id)
    if closer and close_with_copies.is_closed_by_person(closer.name, closer.type, agent):
        action = f"{fact.lifecycle if closer.type else 'closed'} it"
        raise Forbidden(
            f"{refused}: {close_with_copies.describe_action(closer.name, closer.type, action)};"
            " remember what you know instead, or have a person restore it"
        )


def _live_successors(uow: FactUnitOfWork, fact_id: str) -> list[Fact]:
    supersede_links = [link for link in uow.links(fact_id) if link.type == "supersedes"]
    facts = [uow.fact(link.from_id) for link in supersede_links if link.to_id == fact_id]
    return [fact for fact in facts if fact and fact.lifecycle == "live"]


def _live_key_holder(uow: FactUnitOfWork, fact: Fact) -> Fact | None:
    if fact.review in UNREVIEWED:
        return None
    keyed = store_fact.key_holders(uow, fact.scope, domain.key_hash(fact.subject, fact.predicate))
    return next((holder for holder in keyed if holder.lifecycle == "live"), None)
