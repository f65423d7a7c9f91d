"""Facts closed, and what becomes of the promoted copies of a fact that no longer stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from knowledge_client.models import Fact
from knowledge_service.event_log import times
from knowledge_service.fact_operations.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import Actor, Order

ORIGIN_GONE = "origin-retracted"


@dataclass(frozen=True)
class Withdrawal:
    """The copies that were closed with their origin, and those that wait for a reviewer."""

    retracted: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()

    def __add__(self, other: Withdrawal) -> Withdrawal:
        return Withdrawal(self.retracted + other.retracted, self.flagged + other.flagged)


def close(
    uow: FactUnitOfWork, fact: Fact, lifecycle: str, reason: str, actor: Actor, *, until: int | None
) -> None:  # fmt: skip
    """End a live fact; `until` ends its validity in the world too, unless that ended before."""
    ends = [each for each in (until, times.to_us(fact.valid_until)) if each is not None]
    given = {
        "lifecycle": lifecycle, "closed_at": uow.at_us, "closed_reason": reason,
        "closed_by": actor.name, "valid_until": min(ends, default=None),
    }  # fmt: skip
    parts = [{"fact": fact.id, "actor_type": actor.type, "set": given}]
    uow.record("fact.closed", scope=fact.scope, actor=actor, parts=parts)


def is_persons(actor: str, actor_type: str | None, agent: str) -> bool:
    """Tell whether an agent must treat a closing as a person's.

    Older versions stored no type: then an agent takes back what was done under its own name.
    """
    return actor_type == "human" if actor_type else actor != agent


def described(actor: str, actor_type: str | None, done: str) -> str:
    """Say in words for a refusal that somebody did what `is_persons` treats as a person's."""
    if actor_type:
        return f"a person {done}"
    return f"{actor} {done}, and the log does not say whether {actor} is a person"


def withdraw_copies(
    uow: FactUnitOfWork,
    origin_id: str,
    order: Order,
    *,
    cause: Literal["retracted", "corrected", "rejected", "superseded"],
    until: int,
) -> Withdrawal:
    """Close the copies of a fact that was closed, level by level.

    A copy that others confirmed is flagged instead, with the copies made of it: a reviewer decides.
    A correction below never changes the text of a copy. What was superseded was true before, so its
    copy is superseded too and the same statement may be promoted again; any other copy is
    retracted.
    `until` ends the validity of the copies in the world, in microseconds.
    """
    origin = require_fact(uow, origin_id)
    lifecycle = "superseded" if cause == "superseded" else "retracted"
    withdrawal = Withdrawal()
    for standing in uow.promotions(origin_id):
        copy = uow.fact(standing.copy)
        if standing.origin != origin_id or copy is None or copy.lifecycle != "live":
            continue
        if copy.source.type != "promoted":
            continue  # it was told there and only confirmed by the origin; it stands by itself
        # Readers of the copy may not see the origin, so they do not read why it was closed either.
        reason = f"the fact that it was copied from was {cause}"
        if _stands_without(uow, origin, copy):
            withdrawal += Withdrawal(flagged=flag(uow, copy, Order(order.actor, reason)))
            continue
        close(uow, copy, lifecycle, reason, order.actor, until=until)
        part = {"id": standing.id, "origin": standing.origin, "copy": standing.copy}
        uow.record("promotion.undone", scope=copy.scope, actor=order.actor, parts=[part])
        withdrawal += Withdrawal(retracted=(copy.id,))
        withdrawal += withdraw_copies(uow, copy.id, order, cause=cause, until=until)
    return withdrawal


def flag(uow: FactUnitOfWork, copy: Fact, order: Order) -> tuple[str, ...]:
    """Keep a copy out of injection until a reviewer decides, and the copies made of it as well."""
    if ORIGIN_GONE not in copy.flags:
        flags = [*copy.flags, ORIGIN_GONE]
        part = {"fact": copy.id, "reason": order.reason, "set": {"flags": flags}}
        uow.record("fact.flagged", scope=copy.scope, actor=order.actor, parts=[part])
    flagged = [copy.id]
    for standing in uow.promotions(copy.id):
        above = uow.fact(standing.copy) if standing.origin == copy.id else None
        if above and above.lifecycle == "live":
            flagged += flag(uow, above, order)
    return tuple(flagged)


def _stands_without(uow: FactUnitOfWork, origin: Fact, copy: Fact) -> bool:
    """Tell whether a copy is more than its origin: approved or confirmed by others.

    Who said the origin, and the session in which it was said, confirm nothing by saying it again.
    """
    if copy.review == "approved" or _origins(uow, copy.id) > 1:
        return True
    own = {ref.id for ref in origin.source.refs}
    return any(
        each.actor != origin.source.actor and each.session not in own
        for each in uow.confirmations(copy.id)
    )


def _origins(uow: FactUnitOfWork, copy_id: str) -> int:
    return sum(each.copy == copy_id for each in uow.promotions(copy_id))
