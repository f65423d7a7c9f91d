"""Undo: appends the inverse of the last operation on a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_client.models import Fact, UndoResult
from knowledge_service.errors import Conflict, Forbidden
from knowledge_service.event_log.events import Event
from knowledge_service.fact_operations import closing
from knowledge_service.fact_operations.unit_of_work import FactUnitOfWork, closes, require_fact
from knowledge_service.ports import ActionContext

_RECORDED = "fact.recorded"
# `fact.restated` replaces `fact.reviewed` after the text of an edit was erased.
_REVIEWED = ("fact.reviewed", "fact.restated")
_ENDS = ("fact", "from", "to", "origin", "copy")


def undo_last_operation(uow: FactUnitOfWork, fact_id: str, order: ActionContext) -> UndoResult:
    """Undo the last operation on a fact, including its effects on other facts.

    Raises:
        NotFound: no such fact.
        Conflict: nothing is left to undo, or a later change depends on the operation.
        Forbidden: an agent undoes what a reviewer decided or a fact that a person closed, or makes
            a fact live again that a person has closed since.
        QuotaExceeded: an agent makes a fact live again in a full scope.
    """
    fact = require_fact(uow, fact_id)
    op = uow.operation(fact_id)
    if op is None:
        raise Conflict(f"fact {fact_id} has nothing left to undo")
    events = uow.events(op)
    if order.actor.type == "agent" and any(event.type in _REVIEWED for event in events):
        raise Forbidden(
            f"{order.actor.name} may not undo the last change of fact {fact_id}:"
            " a reviewer decided it; only people and the operator may undo it"
        )
    effects = [(event, part) for event in events for part in _parts(event, fact_id)]
    if order.actor.type == "agent":
        _require_no_closing_by_person(effects, fact_id, order.actor.name)
    touched = _touched_facts(uow, effects)
    _require_last(uow, touched, fact, op)
    if order.actor.type == "agent":
        _require_not_closed_since(uow, effects, fact, order.actor.name)
    reopened = sum(
        (event.type == "fact.closed") - (event.type == _RECORDED) for event, _ in effects
    )
    if order.actor.is_bounded and reopened > 0:
        uow.require_room(fact.scope)
    uow.begin()
    for event, part in reversed(effects):
        _revert(uow, fact.scope, event, part, order, op)
    return UndoResult(fact_id=fact_id, undone=effects[0][0].type, changed=tuple(touched))


def _require_last(uow: FactUnitOfWork, touched: Sequence[str], fact: Fact, op: int) -> None:
    """Check that the operation is the last one on every fact that it touched.

    Raises:
        Conflict: one of the facts was changed later.
    """
    for touched_id in touched:
        if uow.operation(touched_id) != op:
            # The caller may not see facts in other scopes.
            touched_fact = uow.fact(touched_id)
            description = (
                f"fact {touched_id}"
                if touched_fact and touched_fact.scope == fact.scope
                else "a fact elsewhere"
            )
            raise Conflict(
                f"{description} was changed after what is to be undone; undo that change first"
            )


def _require_no_closing_by_person(
    effects: Sequence[tuple[Event, Mapping[str, Any]]], fact_id: str, agent: str
) -> None:
    """Check that no person closed a fact in this operation.

    Raises:
        Forbidden: a person did.
    """
    for event, part in effects:
        by = part.get("actor_type")
        if event.type == "fact.closed" and closing.is_closed_by_person(event.actor, by, agent):
            raise _forbidden(fact_id, agent, event.actor, by, "closed a fact with it")


def _require_not_closed_since(
    uow: FactUnitOfWork, effects: Sequence[tuple[Event, Mapping[str, Any]]], fact: Fact, agent: str
) -> None:
    """Check that no fact becomes live again that a person has closed since, such as by an undo.

    Raises:
        Forbidden: a fact would.
    """
    for event, part in effects:
        closed_fact = uow.fact(part["fact"]) if "fact" in part else None
        if closed_fact is None or closed_fact.lifecycle == "live":
            continue
        old_values = uow.values_before(closed_fact.id, event.seq) or {}
        closer = uow.closer(closed_fact.id)
        if old_values.get("lifecycle") != "live" or closer is None:
            continue
        if closing.is_closed_by_person(closer.name, closer.type, agent):
            # The caller may not see facts in other scopes.
            name = closer.name if closed_fact.scope == fact.scope else "somebody"
            since = "closed a fact since that it would make live again"
            raise _forbidden(fact.id, agent, name, closer.type, since)


def _forbidden(
    fact_id: str, agent: str, actor: str, actor_type: str | None, action: str
) -> Forbidden:
    return Forbidden(
        f"{agent} may not undo the last change of fact {fact_id}:"
        f" {closing.describe_action(actor, actor_type, action)};"
        " only people and the operator may undo it"
    )


def _parts(event: Event, fact_id: str) -> Sequence[Mapping[str, Any]]:
    if None in event.parts and len(event.parts) == 1:
        raise Conflict(f"fact {fact_id}: a part of what is to be undone was erased")
    if len(event.parts) == 1:
        return list(event.remaining_parts())
    # Each fact that was recorded in a batch is an operation of its own.
    return [
        {**part, "alone": True} for part in event.remaining_parts() if part.get("fact") == fact_id
    ]


def _touched_facts(
    uow: FactUnitOfWork, effects: Sequence[tuple[Event, Mapping[str, Any]]]
) -> list[str]:
    touched_ids = [
        part[name]
        for event, part in effects
        for name in _ENDS
        if name in part and not (name == "to" and event.is_link_alone)
    ]
    return [touched_id for touched_id in dict.fromkeys(touched_ids) if uow.fact(touched_id)]


# The inverse of events that do not change a fact's own state.
_INVERSE = {
    "link.made": "link.closed",
    "link.closed": "link.restored",
    "promotion.made": "promotion.undone",
    "promotion.undone": "promotion.redone",
    "alias.set": "alias.set",
}
_STATEMENTS = ("fact.confirmed", "fact.reviewed")


def _revert(
    uow: FactUnitOfWork,
    scope: str,
    event: Event,
    part: Mapping[str, Any],
    order: ActionContext,
    op: int,
) -> None:
    inverse = {name: part[name] for name in (*_ENDS, "id", "alone") if name in part}
    inverse |= {"undoes": op, "reason": order.reason}
    if event.type == "alias.set":
        inverse |= {"namespace": part["namespace"], "value": part["value"], "fact": part["was"]}
    elif event.type == _RECORDED:
        inverse["set"] = {
            "lifecycle": "retracted", "closed_at": uow.at_us, "closed_by": order.actor.name,
            "closed_reason": f"undone: {order.reason}",
        }  # fmt: skip
    elif event.type not in _INVERSE:
        inverse["set"] = dict(uow.values_before(part["fact"], event.seq) or {})
        if event.type in _STATEMENTS:
            inverse["unsaid"] = event.seq
    if closes(inverse):
        inverse["actor_type"] = order.actor.type
    fact = uow.fact(inverse["fact"]) if "fact" in inverse else None
    kind = _INVERSE.get(event.type, "fact.undone")
    uow.record(kind, scope=fact.scope if fact else scope, actor=order.actor, parts=[inverse])
