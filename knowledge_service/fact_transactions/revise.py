"""Revises facts: a successor with other values takes over the names and links of a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_client.models import Revised
from knowledge_service.domain import closure_messages
from knowledge_service.domain import facts as domain
from knowledge_service.errors import Conflict
from knowledge_service.event_log import times
from knowledge_service.fact_transactions import close_with_copies, names, store_fact
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, LiveLink, require_fact
from knowledge_service.ports import ActionContext, Actor

_OWN_TYPES = frozenset({"supersedes", "promoted_from", "derived_from"})


def revise_fact(
    uow: FactUnitOfWork, fact_id: str, changes: Mapping[str, Any], context: ActionContext
) -> Revised:
    """Revise a fact, as an operation of its own.

    Raises:
        NotFound: no such fact.
        Conflict: the fact is closed or no longer valid, nothing would change, or another live fact
            says the same.
        PreviouslyRetracted: a fact equal to the successor was retracted in the scope.
    """
    uow.begin()
    return revise_within_operation(uow, fact_id, changes, context)


def revise_within_operation(
    uow: FactUnitOfWork, fact_id: str, changes: Mapping[str, Any], context: ActionContext
) -> Revised:
    """Revise a fact as part of an operation that has begun.

    A draft stays a draft. Promoted copies are superseded with their origin, unless others confirmed
    them.

    Raises:
        NotFound, Conflict, PreviouslyRetracted: as for `revise_fact`.
    """
    old = require_fact(uow, fact_id)
    if old.lifecycle != "live":
        raise Conflict(
            f"fact {fact_id} is {closure_messages.describe_closure(old, 'already')};"
            " restore it first, or remember what you know instead"
        )
    if old.valid_until and times.to_us(old.valid_until) <= uow.at_us:
        raise Conflict(
            f"fact {fact_id} was valid until {old.valid_until.isoformat()} and cannot be revised;"
            " remember what is true now instead"
        )
    new = domain.revision(old, changes, context.actor.name, context.actor.author)
    if not domain.is_changed(old, new):
        raise Conflict(f"the revision of fact {fact_id} changes nothing")
    links = uow.links(fact_id)
    root = uow.root(fact_id)
    close_with_copies.close_fact(
        uow, old, "superseded", context.reason, context.actor, valid_until_us=uow.at_us
    )
    withdrawal = close_with_copies.withdraw_copies(
        uow, fact_id, context, cause="superseded", valid_until_us=uow.at_us
    )
    successor_id = store_fact.store_successor(uow, new, old, context.actor, root=root)
    store_fact.link_facts(
        uow, successor_id, fact_id, "supersedes", scope=old.scope, actor=context.actor
    )
    for link in links:
        if link.type not in _OWN_TYPES:
            _move_link(uow, link, old.scope, (fact_id, successor_id), context.actor)
    names.pass_on_aliases(uow, old, new, successor_id, context.actor)
    return Revised(
        fact_id=fact_id,
        successor_id=successor_id,
        copies_retracted=withdrawal.retracted,
        copies_flagged=withdrawal.flagged,
    )


def _move_link(
    uow: FactUnitOfWork, link: LiveLink, scope: str, ids: tuple[str, str], actor: Actor
) -> None:
    """Replace a link of a revised fact by one of its successor.

    Undo of the revision moves it back. The fact at the other end is only referenced.
    """
    old_id, new_id = ids
    closed = {"id": link.id, "from": link.from_id, "to": link.to_id, "of": old_id}
    start, end = (new_id if end_id == old_id else end_id for end_id in (link.from_id, link.to_id))
    part = {
        "id": uow.new_id(), "from": start, "to": end, "type": link.type, "of": new_id,
        "moves": link.id, "weight": link.weight, "data": link.data,
        "valid_from": times.to_us(link.valid_from), "valid_until": times.to_us(link.valid_until),
    }  # fmt: skip
    uow.record("link.closed", scope=scope, actor=actor, parts=[closed])
    parts = [{name: value for name, value in part.items() if value is not None}]
    uow.record("link.made", scope=scope, actor=actor, parts=parts)
