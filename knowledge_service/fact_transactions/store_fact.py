"""Remembers a fact: confirms an equal live fact, or records the fact and applies supersession."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kais import facts as kais_facts
from knowledge_client.models import Fact, Remembered
from knowledge_service.domain import facts, supersession
from knowledge_service.domain.access_control import UNREVIEWED
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict, PreviouslyRetracted
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import close_with_copies
from knowledge_service.fact_transactions.unit_of_work import Decision, FactUnitOfWork
from knowledge_service.ports import ActionContext, Actor


def store_or_confirm_fact(uow: FactUnitOfWork, new: NewFact, actor: Actor) -> Remembered:
    """Store one fact, or confirm the equal live fact.

    Raises:
        PreviouslyRetracted: an equal fact was retracted, rejected or replaced in review there, and
            the fact is not forced.
    """
    uow.begin()
    return store_within_transaction(uow, new, actor)


def store_within_transaction(uow: FactUnitOfWork, new: NewFact, actor: Actor) -> Remembered:
    """Store one fact as part of an operation that has begun.

    Raises:
        PreviouslyRetracted: as for `store_or_confirm_fact`.
    """
    equal = uow.equal(new.scope, new.content_hash)
    if equal and equal.lifecycle == "live":
        confirm_equal(uow, equal, new, actor)
        return Remembered(fact_id=equal.id, status="confirmed")
    if equal and equal.lifecycle == "retracted" and not new.force:
        raise PreviouslyRetracted(
            f"an equal fact was retracted in {new.scope}: {equal.closed_reason};"
            " say what is different, or force it"
        )
    # Closing a draft of the same text does not cancel the rejection.
    decision = uow.decision(new.scope, new.content_hash) if equal else None
    if decision and decision.verdict != "approved":
        new = _as_draft(decision, new)
    stored = _create(uow, new, actor)
    if equal:
        link_facts(uow, stored.fact_id, equal.id, "derived_from", scope=new.scope, actor=actor)
    return stored


def store_successor(
    uow: FactUnitOfWork, new: NewFact, old: Fact, actor: Actor, *, root: str
) -> str:
    """Store the successor of a fact that was just closed, and return its id.

    `root` is the first version of the fact, which the successor names.

    Raises:
        Conflict: another live fact is equal.
        PreviouslyRetracted: an equal fact was retracted, rejected or replaced in review there.
    """
    if new.content_hash != facts.hash_of_fact(old):
        equal = uow.equal(new.scope, new.content_hash)
        if equal and equal.lifecycle == "live":
            raise Conflict(f"fact {equal.id} is live and says the same; confirm that one")
        if equal and equal.lifecycle == "retracted":
            raise PreviouslyRetracted(
                f"an equal fact was retracted in {new.scope}: {equal.closed_reason};"
                " say what is different"
            )
        decision = uow.decision(new.scope, new.content_hash) if equal else None
        if decision and decision.verdict != "approved":
            new = _as_draft(decision, new)
    return _create(uow, new, actor, {"root": root}).fact_id


_NOT_APPROVED = {
    "rejected": "an equal fact was rejected in review",
    "replaced": "a reviewer replaced the text of an equal fact",
}


def _as_draft(decision: Decision, new: NewFact) -> NewFact:
    """Return a fact as a draft, because a reviewer rejected or replaced an equal fact.

    Raises:
        PreviouslyRetracted: the fact is not forced.
    """
    if not new.force:
        raise PreviouslyRetracted(
            f"{_NOT_APPROVED[decision.verdict]} in {new.scope}: {decision.fact.closed_reason};"
            " say what is different, or force it, which makes a draft for the reviewer"
        )
    return dataclasses.replace(new, review="draft")


def confirm_equal(uow: FactUnitOfWork, fact: Fact, new: NewFact, actor: Actor) -> None:
    """Add a confirmation: merge tags, keep the higher confidence; review and flags stay.

    Tags are still new text, so their flags are added. Only a person may add flagged tags to an
    approved fact.
    """
    tags = kais_facts.merge_tags(fact.tags, new.tags)
    earned = facts.flags_of_tags(tags) if tuple(tags) != fact.tags else ()
    if earned and fact.review == "approved" and actor.type != "human":
        tags, earned = list(fact.tags), ()
    changes: dict[str, Any] = {"tags": tags, "confidence": max(fact.confidence, new.confidence)}
    flags = facts.merged_flags(fact.flags, earned)
    if flags != fact.flags:
        changes["flags"] = list(flags)
    part = {"fact": fact.id, "session": new.session, "set": changes}
    uow.record("fact.confirmed", scope=fact.scope, actor=actor, parts=[part])


def link_facts(
    uow: FactUnitOfWork, from_id: str, to_id: str, kind: str, *, scope: str, actor: Actor
) -> None:
    """Link two facts; a live link of the same type is not changed."""
    if any(
        (existing.from_id, existing.to_id, existing.type) == (from_id, to_id, kind)
        for existing in uow.links(from_id)
    ):
        return
    parts = [{"id": uow.new_id(), "from": from_id, "to": to_id, "type": kind}]
    uow.record("link.made", scope=scope, actor=actor, parts=parts)


def key_holders(uow: FactUnitOfWork, scope: str, key_hash: bytes | None) -> list[Fact]:
    """Return the live and superseded facts of a key, oldest first.

    Drafts and rejected facts hold no key.
    """
    keyed = uow.facts_by_key(scope, key_hash) if key_hash else ()
    return [fact for fact in keyed if fact.review not in UNREVIEWED]


def take_key(uow: FactUnitOfWork, fact: Fact, actor: Actor) -> None:
    """Apply supersession for a live fact that was just approved and held no key before."""
    key_hash = facts.key_hash(fact.subject, fact.predicate)
    keyed = _holders_of_single_value(uow, fact.scope, key_hash, fact.predicate)
    other_holders = [holder for holder in keyed if holder.id != fact.id]
    claim = _claim_key(other_holders, times.to_us(_valid_since(fact)), actor, is_approved=True)
    successor_id = claim.verdict.superseded_by
    if successor_id:
        reason = f"superseded by {successor_id}"
        close_with_copies.close_fact(
            uow, fact, "superseded", reason, actor, valid_until_us=claim.valid_until_us
        )
    _apply_claim(uow, fact.id, fact.scope, claim, actor)


@dataclasses.dataclass(frozen=True)
class _KeyClaim:
    """The effect of a fact on others with its key; it is valid from `since`, in microseconds."""

    holders: tuple[Fact, ...]
    since: int
    verdict: supersession.SupersessionVerdict

    @property
    def valid_until_us(self) -> int:
        """The start of the next later statement; there must be one."""
        starts: list[int] = [times.to_us(_valid_since(fact)) for fact in self.holders]
        return min(start for start in starts if start > self.since)


def _claim_key(
    keyed: Sequence[Fact], since: int, actor: Actor, *, is_approved: bool = False
) -> _KeyClaim:
    verdict = supersession.decide_supersession(
        [
            supersession.Holder(fact.id, _valid_since(fact), fact.review == "approved")
            for fact in keyed
            if fact.lifecycle == "live"
        ],
        times.from_us(since),
        actor.type,
        is_approved=is_approved,
    )
    return _KeyClaim(tuple(keyed), since, verdict)


def _create(
    uow: FactUnitOfWork, new: NewFact, actor: Actor, additions: Mapping[str, Any] | None = None
) -> Remembered:
    since = times.to_us(new.valid_from) if new.valid_from else uow.at_us
    is_held = new.review in UNREVIEWED
    keyed = [] if is_held else _holders_of_single_value(uow, new.scope, new.key_hash, new.predicate)
    claim = _claim_key(keyed, since, actor)
    verdict = claim.verdict
    fact_id = uow.new_id()
    payload_additions: dict[str, Any] = {}
    if verdict.superseded_by:
        ends = [claim.valid_until_us, *([times.to_us(new.valid_until)] if new.valid_until else [])]
        payload_additions = {
            "lifecycle": "superseded",
            "closed_reason": f"superseded by {verdict.superseded_by}",
            "valid_until": min(ends),
        }
    if actor.is_bounded and not payload_additions and not verdict.closes:
        uow.require_room(new.scope)
    payload_additions |= additions or {}
    uow.create(new, fact_id, actor=actor, payload_additions=payload_additions)
    _apply_claim(uow, fact_id, new.scope, claim, actor)
    return Remembered(
        fact_id=fact_id,
        status="created",
        superseded=verdict.closes,
        contradicts=verdict.contradicts,
    )


def _apply_claim(
    uow: FactUnitOfWork, fact_id: str, scope: str, claim: _KeyClaim, actor: Actor
) -> None:
    """Close the other facts of the key, link them, and limit their validity."""
    by_id, verdict = {fact.id: fact for fact in claim.holders}, claim.verdict
    for superseded_id in verdict.closes:
        reason = f"superseded by {fact_id}"
        close_with_copies.close_fact(
            uow, by_id[superseded_id], "superseded", reason, actor, valid_until_us=claim.since
        )
        link_facts(uow, fact_id, superseded_id, "supersedes", scope=scope, actor=actor)
        context = ActionContext(actor, "the fact that it was copied from was superseded")
        close_with_copies.withdraw_copies(
            uow, superseded_id, context, cause="superseded", valid_until_us=claim.since
        )
    for contradicted_id in verdict.contradicts:
        link_facts(uow, fact_id, contradicted_id, "contradicts", scope=scope, actor=actor)
    if verdict.superseded_by:
        link_facts(uow, verdict.superseded_by, fact_id, "supersedes", scope=scope, actor=actor)
    closed = [fact for fact in claim.holders if fact.lifecycle == "superseded"]
    _end_closed_statements(uow, closed, claim.since, actor)


def _holders_of_single_value(
    uow: FactUnitOfWork, scope: str, key_hash: bytes | None, predicate: str | None
) -> list[Fact]:
    if key_hash is None:
        return []
    multi_value_predicates = {kais_facts.normalize_key(name) for name in uow.config(scope).many}
    if kais_facts.normalize_key(predicate) in multi_value_predicates:
        return []
    return key_holders(uow, scope, key_hash)


def _end_closed_statements(
    uow: FactUnitOfWork, closed: list[Fact], since: int, actor: Actor
) -> None:
    """End the validity of closed statements where a late one starts, so that none overlap."""
    for fact in closed:
        valid_until_us = times.to_us(fact.valid_until)
        if times.to_us(_valid_since(fact)) < since and (
            valid_until_us is None or valid_until_us > since
        ):
            part = {"fact": fact.id, "set": {"valid_until": since}}
            uow.record("fact.bounded", scope=fact.scope, actor=actor, parts=[part])


def _valid_since(fact: Fact) -> Any:
    return fact.valid_from or fact.recorded_at
