"""Closes facts, and withdraws the promoted copies of a closed fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from knowledge_client.models import Fact
from knowledge_service.event_log import times
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext, Actor

ORIGIN_RETRACTED_FLAG = "origin-retracted"


@dataclass(frozen=True)
class Withdrawal:
    """The copies that were closed with their origin, and the copies that wait for a reviewer."""

    retracted: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()

    def __add__(self, second: Withdrawal) -> Withdrawal:
        return Withdrawal(self.retracted + second.retracted, self.flagged + second.flagged)


def close_fact(
    uow: FactUnitOfWork, fact: Fact, lifecycle: str, reason: str, actor: Actor,
    *, valid_until_us: int | None,
) -> None:  # fmt: skip
    """Close a live fact. Its validity ends at `valid_until_us`, unless it ended before."""
    ends = [
        end_us for end_us in (valid_until_us, times.to_us(fact.valid_until)) if end_us is not None
    ]
    changes = {
        "lifecycle": lifecycle, "closed_at": uow.at_us, "closed_reason": reason,
        "closed_by": actor.name, "valid_until": min(ends, default=None),
    }  # fmt: skip
    parts = [{"fact": fact.id, "actor_type": actor.type, "set": changes}]
    uow.record("fact.closed", scope=fact.scope, actor=actor, parts=parts)


def is_closed_by_person(actor: str, actor_type: str | None, agent: str) -> bool:
    """Return whether an agent must respect a closing as the decision of a person.

    Older versions stored no actor type: then an agent may undo only operations of its own name.
    """
    return actor_type == "human" if actor_type else actor != agent


def describe_action(actor: str, actor_type: str | None, action: str) -> str:
    """Describe, for an error, an action that `is_closed_by_person` treats as a person's."""
    if actor_type:
        return f"a person {action}"
    return f"{actor} {action}, and the log does not say whether that was a person"


def withdraw_copies(
    uow: FactUnitOfWork,
    origin_id: str,
    context: ActionContext,
    *,
    cause: Literal["retracted", "corrected", "rejected", "superseded"],
    valid_until_us: int,
) -> Withdrawal:
    """Close the copies of a closed fact, level by level.

    A copy that others confirmed is flagged instead, with its own copies, and a reviewer decides. A
    correction of the origin never changes the text of a copy. A superseded fact was true before, so
    its copy is superseded too and the same statement may be promoted again; any other copy is
    retracted. `valid_until_us` ends the validity of the copies in the world.

    Raises:
        NotFound: the fact does not exist.
    """
    origin = require_fact(uow, origin_id)
    lifecycle = "superseded" if cause == "superseded" else "retracted"
    withdrawal = Withdrawal()
    for active_promotion in uow.promotions(origin_id):
        copy = uow.fact(active_promotion.copy)
        if active_promotion.origin != origin_id or copy is None or copy.lifecycle != "live":
            continue
        if copy.source.type != "promoted":
            continue  # it was remembered there and the origin only confirmed it
        # Readers of the copy may not see the origin, so they must not see its reason either.
        reason = f"the fact that it was copied from was {cause}"
        if _has_evidence_beside(uow, origin, copy):
            withdrawal += Withdrawal(
                flagged=flag_copy(uow, copy, ActionContext(context.actor, reason))
            )
            continue
        close_fact(uow, copy, lifecycle, reason, context.actor, valid_until_us=valid_until_us)
        part = {
            "id": active_promotion.id,
            "origin": active_promotion.origin,
            "copy": active_promotion.copy,
        }
        uow.record("promotion.undone", scope=copy.scope, actor=context.actor, parts=[part])
        withdrawal += Withdrawal(retracted=(copy.id,))
        withdrawal += withdraw_copies(
            uow, copy.id, context, cause=cause, valid_until_us=valid_until_us
        )
    return withdrawal


def flag_copy(uow: FactUnitOfWork, copy: Fact, context: ActionContext) -> tuple[str, ...]:
    """Flag a copy and its own copies, and return their ids.

    Flagged facts are not injected until a reviewer decides.
    """
    if ORIGIN_RETRACTED_FLAG not in copy.flags:
        flags = [*copy.flags, ORIGIN_RETRACTED_FLAG]
        part = {"fact": copy.id, "reason": context.reason, "set": {"flags": flags}}
        uow.record("fact.flagged", scope=copy.scope, actor=context.actor, parts=[part])
    flagged = [copy.id]
    for active_promotion in uow.promotions(copy.id):
        above = uow.fact(active_promotion.copy) if active_promotion.origin == copy.id else None
        if above and above.lifecycle == "live":
            flagged += flag_copy(uow, above, context)
    return tuple(flagged)


def _has_evidence_beside(uow: FactUnitOfWork, origin: Fact, copy: Fact) -> bool:
    """Return whether a copy has evidence besides its origin: an approval or other confirmations.

    A confirmation by the author of the origin, or from the session of the origin, does not count.
    """
    if copy.review == "approved" or _count_origins(uow, copy.id) > 1:
        return True
    origin_refs = {ref.id for ref in origin.source.refs}
    return any(
        confirmation.actor != origin.source.actor and confirmation.session not in origin_refs
        for confirmation in uow.confirmations(copy.id)
    )


def _count_origins(uow: FactUnitOfWork, copy_id: str) -> int:
    return sum(promotion.copy == copy_id for promotion in uow.promotions(copy_id))
