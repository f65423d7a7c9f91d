"""Facts approved and rejected."""

from __future__ import annotations

from typing import Any

from knowledge_client.models import Approved, ApproveIn, Fact
from knowledge_service.domain import endings
from knowledge_service.domain import facts as domain
from knowledge_service.domain.visibility import UNREVIEWED
from knowledge_service.errors import Conflict
from knowledge_service.fact_operations import closing, storing
from knowledge_service.fact_operations.desk import Desk, known
from knowledge_service.ports import Order


def approve(desk: Desk, fact_id: str, order: Order, edits: ApproveIn) -> Approved:
    """Approve a live fact; with other words, approve a successor instead.

    A draft takes its key now: it supersedes the facts of the key, or one of them supersedes it. A
    person's approval lifts the flags; one by the service's own accounts leaves them.

    Raises:
        NotFound: no such fact.
        Conflict: it is not live, or approved already.
    """
    desk.begin()
    fact = _reviewable(desk, fact_id, "approved")
    if edits.content is None and edits.title is None and edits.tags is None:
        _approve(desk, fact, order)
        return Approved(fact=known(desk, fact_id))
    changes = edits.model_dump(exclude={"reason"}, exclude_none=True, mode="json")
    new = domain.edited(fact, edits, order.actor.name)
    if new.content_hash == domain.hash_of(fact):
        raise Conflict(f"the edited words of fact {fact_id} say the same; approve it as it is")
    _review(desk, fact, order, "approved", {}, edits=changes)
    closing.close(desk, fact, "superseded", order.reason, order.actor, until=desk.at_us)
    withdrawal = closing.withdraw_copies(desk, fact_id, order, cause="corrected", until=desk.at_us)
    stored = storing.within(desk, new, order.actor)
    storing.link(desk, stored.fact_id, fact_id, "supersedes", scope=fact.scope, actor=order.actor)
    desk.hand_over(fact_id, stored.fact_id, actor=order.actor)
    successor = known(desk, stored.fact_id)
    _approve(desk, successor, order)
    return Approved(
        fact=known(desk, stored.fact_id),
        replaced=fact_id,
        copies_retracted=withdrawal.retracted,
        copies_flagged=withdrawal.flagged,
    )


def reject(desk: Desk, fact_id: str, order: Order) -> Fact:
    """Reject a live fact: it is archived, and can be restored; its copies are withdrawn.

    Raises:
        NotFound: no such fact.
        Conflict: it is not live, or rejected already.
    """
    desk.begin()
    fact = _reviewable(desk, fact_id, "rejected")
    given = {
        "review": "rejected", "lifecycle": "archived", "closed_at": desk.at_us,
        "closed_reason": order.reason, "closed_by": order.actor.name,
    }  # fmt: skip
    _review(desk, fact, order, "rejected", given)
    closing.withdraw_copies(desk, fact_id, order, cause="rejected", until=desk.at_us)
    return known(desk, fact_id)


def _approve(desk: Desk, fact: Fact, order: Order) -> None:
    _review(desk, fact, order, "approved", _approval(order))
    if fact.review in UNREVIEWED:
        storing.take_key(desk, fact, order.actor)


def _approval(order: Order) -> dict[str, Any]:
    given: dict[str, Any] = {"review": "approved"}
    return given | {"flags": []} if order.actor.type == "human" else given


def _reviewable(desk: Desk, fact_id: str, decision: str) -> Fact:
    fact = known(desk, fact_id)
    if fact.lifecycle != "live":
        raise Conflict(f"fact {fact_id} is {endings.of(fact, 'already')}")
    if fact.review == decision and not fact.flags:
        raise Conflict(f"fact {fact_id} is {decision} already")
    return fact


def _review(
    desk: Desk, fact: Fact, order: Order, decision: str, given: dict[str, Any],
    *, edits: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    part = {
        "fact": fact.id, "decision": decision, "actor_type": order.actor.type,
        "reason": order.reason, "set": given,
    }  # fmt: skip
    if edits is not None:
        part["edits"] = edits
    desk.record("fact.reviewed", scope=fact.scope, actor=order.actor, parts=[part])
