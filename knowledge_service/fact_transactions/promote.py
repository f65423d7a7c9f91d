"""Copies facts one level up, on request or by the rule of their scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_client.models import Fact, PromotionResult
from knowledge_service.domain import facts as domain
from knowledge_service.domain import promotion
from knowledge_service.domain.access_control import PLATFORM, contains, lineage
from knowledge_service.errors import Conflict, PreviouslyRetracted
from knowledge_service.fact_transactions import store_fact
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext, Actor

ACTOR = Actor("kais-promotion", "system")


def promote_fact(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> PromotionResult:
    """Copy a fact one level up on request; a repeat returns the existing copy.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is not live, waits for a review, or is at the top, or the scope above has
            a different fact on the same subject and predicate.
        PreviouslyRetracted: an equal fact was retracted above.
    """
    uow.begin()
    fact = require_fact(uow, fact_id)
    refusal = promotion.reason_against_promotion(fact)
    if refusal:
        raise Conflict(f"fact {fact_id} cannot be promoted: {refusal}")
    target = lineage(fact.scope)[1]
    live_copy_id = _find_live_copy(uow, fact, target)
    if live_copy_id:
        return PromotionResult(
            fact_id=fact_id, copy_id=live_copy_id, scope=target, status="confirmed"
        )
    contradicting = _find_contradicting(uow, fact, target)
    if contradicting:
        raise Conflict(
            f"fact {contradicting.id} in {target} says otherwise about the same subject and"
            " predicate; correct that one first"
        )
    return _make_copy(
        uow, fact, target, context, rule="manual", evidence={"reason": context.reason}
    )


def promote_proven(uow: FactUnitOfWork, fact_id: str) -> PromotionResult | None:
    """Copy a fact one level up if its scope's rule requires it; else return None."""
    fact = uow.fact(fact_id)
    if fact is None or fact.scope == PLATFORM:
        return None
    settings = uow.config(fact.scope).promotion
    target = lineage(fact.scope)[1]
    evidence = promotion.count_evidence(
        [(exposure.mission, exposure.outcome) for exposure in uow.run_exposures(fact_id)]
    )
    if target == PLATFORM or promotion.reason_against_promotion(fact):
        return None
    if not promotion.is_proven(fact, settings, evidence) or _was_copied(uow, fact, target):
        return None
    if _is_contradicted(uow, fact) or _find_contradicting(uow, fact, target):
        return None
    uow.begin()
    context = ActionContext(ACTOR, f"in front of {evidence.missions} succeeded missions")
    try:
        return _make_copy(uow, fact, target, context, rule="automatic", evidence=evidence.as_data())
    except PreviouslyRetracted:
        return None  # an equal fact was retracted in the target scope


def _make_copy(
    uow: FactUnitOfWork, fact: Fact, target: str, context: ActionContext, *,
    rule: str, evidence: Mapping[str, Any],
) -> PromotionResult:  # fmt: skip
    entity = uow.fact(fact.about) if fact.about else None
    visible_about = fact.about if entity and contains(entity.scope, target) else None
    new = domain.promoted_copy(fact, target, about=visible_about, actor=context.actor.name)
    stored = store_fact.store_within_transaction(uow, new, context.actor)
    store_fact.link_facts(
        uow, stored.fact_id, fact.id, "promoted_from", scope=fact.scope, actor=context.actor
    )
    part = {
        "id": uow.new_id(), "origin": fact.id, "copy": stored.fact_id, "rule": rule,
        "evidence": dict(evidence),
    }  # fmt: skip
    uow.record("promotion.made", scope=fact.scope, actor=context.actor, parts=[part])
    return PromotionResult(
        fact_id=fact.id, copy_id=stored.fact_id, scope=target, status=stored.status
    )


def _find_live_copy(uow: FactUnitOfWork, fact: Fact, target: str) -> str | None:
    for promotion_record in uow.promotions(fact.id):
        if promotion_record.origin == fact.id:
            copy = uow.fact(promotion_record.copy)
            if copy and copy.scope == target and copy.lifecycle == "live":
                return copy.id
    return None


def _was_copied(uow: FactUnitOfWork, fact: Fact, target: str) -> bool:
    """Return whether a copy was ever made there; a closed copy is not made again."""
    copies = (
        uow.fact(promotion_record.copy)
        for promotion_record in uow.promotions(fact.id)
        if promotion_record.origin == fact.id
    )
    return any(copy.scope == target for copy in copies if copy)


def _find_contradicting(uow: FactUnitOfWork, fact: Fact, target: str) -> Fact | None:
    holders = store_fact.key_holders(uow, target, domain.key_hash(fact.subject, fact.predicate))
    content_hash = domain.hash_of_fact(fact)
    return next(
        (
            holder
            for holder in holders
            if holder.lifecycle == "live" and domain.hash_of_fact(holder) != content_hash
        ),
        None,
    )


def _is_contradicted(uow: FactUnitOfWork, fact: Fact) -> bool:
    """Return whether a live fact that all readers of this one see contradicts it.

    A contradiction in a cell's own scope is invisible to those readers, so it must not block the
    promotion.
    """
    for link in uow.links(fact.id):
        if link.type == "contradicts":
            opponent = uow.fact(link.to_id if link.from_id == fact.id else link.from_id)
            if opponent and opponent.lifecycle == "live" and contains(opponent.scope, fact.scope):
                return True
    return False
