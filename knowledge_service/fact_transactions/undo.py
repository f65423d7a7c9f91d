"""Undo: appends the inverse of the last operation on a fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from knowledge_client.models import Alias, Fact, UndoResult
from knowledge_service.domain import aliases
from knowledge_service.errors import Conflict, Forbidden, ScopeReadOnly
from knowledge_service.event_log.events import Event, is_reference
from knowledge_service.fact_transactions import close_with_copies, names
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, closes, require_fact
from knowledge_service.ports import ActionContext, Actor

_RECORDED = "fact.recorded"
# `fact.restated` replaces `fact.reviewed` after the text of an edit was erased.
_REVIEWED = ("fact.reviewed", "fact.restated")
_ENDS = ("fact", "from", "to", "origin", "copy")


def undo_last_operation(uow: FactUnitOfWork, fact_id: str, context: ActionContext) -> UndoResult:
    """Undo the last operation on a fact, including its effects on other facts.

    Raises:
        NotFound: no such fact.
        Conflict: nothing is left to undo, or a later change depends on the operation.
        Forbidden: an agent undoes what a reviewer decided or a fact that a person closed, makes
            a fact live again that a person has closed since, or may change only its own facts and
            undoes what another did.
        QuotaExceeded: an agent makes a fact live again in a full scope.
        ScopeReadOnly: the operation had several acts and changed a fact in a read-only scope.
    """
    fact = require_fact(uow, fact_id)
    op = uow.operation(fact_id)
    if op is None:
        raise Conflict(f"fact {fact_id} has nothing left to undo")
    events = uow.events(op)
    if context.actor.type == "agent":
        _require_not_reviewed(events, fact_id, context.actor.name)
    effects = [(event, part) for event in events for part in _parts(event, fact_id)]
    if context.actor.changes_only_own:
        _require_own_operation(uow, effects, fact_id, context.actor)
    if context.actor.type == "agent":
        _require_no_closing_by_person(effects, fact_id, context.actor.name)
    touched = _touched_facts(uow, effects)
    if any("acts" in part for _, part in effects):
        _require_may_change(uow, effects, fact, context)
    _require_last(uow, touched, fact, op)
    _require_names_unchanged(uow, effects, fact.scope)
    _require_names_free(uow, effects, context.actor)
    if context.actor.type == "agent":
        _require_not_closed_since(uow, effects, fact, context.actor.name)
    _require_room(uow, effects, fact.scope, context.actor)
    _revert_all(uow, fact.scope, effects, context, op)
    return UndoResult(fact_id=fact_id, undone=effects[0][0].type, changed=tuple(touched))


def _revert_all(
    uow: FactUnitOfWork,
    scope: str,
    effects: Sequence[tuple[Event, Mapping[str, Any]]],
    context: ActionContext,
    op: int,
) -> None:
    uow.begin()
    skipped_links: set[str] = set()
    for event, part in reversed(effects):
        if event.type == "link.made" and "of" in part and not uow.is_link_live(part["id"]):
            # Another removed the link since; the one that it replaced stays removed, too.
            skipped_links |= {part["id"], part.get("moves", part["id"])}
        if part.get("id") not in skipped_links and event.type not in _NOT_UNDONE:
            _revert(uow, scope, event, part, context, op)


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


def _require_may_change(
    uow: FactUnitOfWork,
    effects: Sequence[tuple[Event, Mapping[str, Any]]],
    fact: Fact,
    context: ActionContext,
) -> None:
    """Check that the caller may change every fact that an operation of several acts changed.

    An actor that may revise a fact may withdraw its promoted copies, and restore them. An actor
    that confirmed a fact may undo the confirmation.

    Raises:
        Forbidden: the caller may not change one of the facts.
        ScopeReadOnly: the scope of one of the facts allows no writes.
    """
    withdrawn = {part["copy"] for event, part in effects if event.type == "promotion.undone"}
    ids = dict.fromkeys(
        changed_id
        for event, part in effects
        for changed_id in _changed_facts(event, part, context.actor.name)
    )
    changed = [
        changed_fact
        for changed_fact in map(uow.fact, ids)
        if changed_fact and changed_fact.id not in withdrawn
    ]
    if context.may_change and not all(context.may_change(changed_fact) for changed_fact in changed):
        raise Forbidden(
            f"{context.actor.name} may not undo the last change of fact {fact.id}: its operation"
            " changed other facts, which it may not change"
        )
    confirmed = [
        changed_fact
        for event, part in effects
        if event.type == "fact.confirmed" and (changed_fact := uow.fact(part["fact"]))
    ]
    for scope in dict.fromkeys(changed_fact.scope for changed_fact in (*changed, *confirmed)):
        if uow.config(scope).read_only:
            raise ScopeReadOnly(f"scope {scope} is read-only; its KnowledgeScope says so")


def _changed_facts(event: Event, part: Mapping[str, Any], actor: str) -> Iterator[str]:
    """Yield the facts that a part of an operation recorded, closed, confirmed or linked.

    Confirmations by the actor itself, and copies that were flagged with their origin, are left out.
    """
    is_confirmation_by_another = event.type == "fact.confirmed" and event.actor != actor
    if event.type in (_RECORDED, "fact.closed") or is_confirmation_by_another:
        yield part["fact"]
    elif "of" in part:
        yield part["of"]


def _require_names_unchanged(
    uow: FactUnitOfWork, effects: Sequence[tuple[Event, Mapping[str, Any]]], scope: str
) -> None:
    """Check that no other fact has taken a name that the operation assigned or moved.

    Raises:
        Conflict: one has.
    """
    for event, part in effects:
        if event.type not in ("alias.set", "alias.removed"):
            continue
        alias = Alias(namespace=part["namespace"], value=part["value"])
        fact = uow.fact(part["fact"])
        holder = uow.alias_holder(fact.scope if fact else scope, alias)
        if holder and holder.id != part["fact"] and holder.lifecycle != "retracted":
            raise Conflict(
                f"{aliases.reference(alias)} is a name of another fact since; free it first"
            )


def _require_names_free(
    uow: FactUnitOfWork, effects: Sequence[tuple[Event, Mapping[str, Any]]], actor: Actor
) -> None:
    """Check that no fact in another scope of a realm has a name that comes back.

    Raises:
        Conflict: one has.
    """
    losing_ids = {part["fact"] for event, part in effects if event.type == "alias.set"}
    for event, part in effects:
        fact = uow.fact(part["fact"]) if "fact" in part else None
        if fact is None:
            continue
        if event.type == "fact.closed":
            names.require_aliases_free(uow, fact, actor, losing_ids)
        elif event.type == "alias.removed":
            alias = Alias(namespace=part["namespace"], value=part["value"])
            names.require_alias_free(uow, fact, alias, actor, losing_ids)


def _require_own_operation(
    uow: FactUnitOfWork,
    effects: Sequence[tuple[Event, Mapping[str, Any]]],
    fact_id: str,
    actor: Actor,
) -> None:
    """Check that an operation is the actor's own, or recorded only facts of the same author.

    Raises:
        Forbidden: another actor did it.
    """
    for event, part in effects:
        recorded = uow.fact(part["fact"]) if event.type == _RECORDED else None
        is_same_author = recorded is not None and recorded.source.author == actor.author
        if event.actor != actor.name and not is_same_author:
            raise Forbidden(
                f"{actor.name} may not undo the last change of fact {fact_id}: {event.actor} made"
                " it; remember what you know instead, or have a person undo it"
            )


def _require_not_reviewed(events: Sequence[Event], fact_id: str, agent: str) -> None:
    """Check that the operation is not the decision of a reviewer.

    Raises:
        Forbidden: it is.
    """
    if any(event.type in _REVIEWED for event in events):
        raise Forbidden(
            f"{agent} may not undo the last change of fact {fact_id}:"
            " a reviewer decided it; only people and the operator may undo it"
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
        if event.type == "fact.closed" and close_with_copies.is_closed_by_person(
            event.actor, by, agent
        ):
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
        if close_with_copies.is_closed_by_person(closer.name, closer.type, agent):
            # The caller may not see facts in other scopes.
            name = closer.name if closed_fact.scope == fact.scope else "another caller"
            since = "closed a fact since that it would make live again"
            raise _forbidden(fact.id, agent, name, closer.type, since)


def _require_room(
    uow: FactUnitOfWork,
    effects: Sequence[tuple[Event, Mapping[str, Any]]],
    scope: str,
    actor: Actor,
) -> None:
    """Check that an agent's scope has room for the facts that become live again.

    Raises:
        QuotaExceeded: the scope is full.
    """
    reopened = sum(
        (event.type == "fact.closed") - (event.type == _RECORDED) for event, _ in effects
    )
    if actor.is_bounded and reopened > 0:
        uow.require_room(scope)


def _forbidden(
    fact_id: str, agent: str, actor: str, actor_type: str | None, action: str
) -> Forbidden:
    return Forbidden(
        f"{agent} may not undo the last change of fact {fact_id}:"
        f" {close_with_copies.describe_action(actor, actor_type, action)};"
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
        if name in part and not is_reference(event, part, name)
    ]
    return [touched_id for touched_id in dict.fromkeys(touched_ids) if uow.fact(touched_id)]


# The inverse of events that do not change a fact's own state.
_INVERSE = {
    "link.made": "link.closed",
    "link.closed": "link.restored",
    "promotion.made": "promotion.undone",
    "promotion.undone": "promotion.redone",
    "alias.set": "alias.set",
    "alias.removed": "alias.set",
}
# Numbers of a sequence are never taken again.
_NOT_UNDONE = frozenset({"sequence.taken"})
_STATEMENTS = ("fact.confirmed", "fact.reviewed")


def _revert(
    uow: FactUnitOfWork,
    scope: str,
    event: Event,
    part: Mapping[str, Any],
    context: ActionContext,
    op: int,
) -> None:
    inverse = {name: part[name] for name in (*_ENDS, "id", "alone", "of") if name in part}
    inverse |= {"undoes": op, "reason": context.reason}
    kind = _INVERSE.get(event.type, "fact.undone")
    if event.type.startswith("alias."):
        inverse |= {"namespace": part["namespace"], "value": part["value"]}
        if event.type == "alias.set" and part.get("was"):
            inverse |= {"fact": part["was"], "was": part["fact"]}
        elif event.type == "alias.set":
            kind = "alias.removed"
    elif event.type == _RECORDED:
        inverse["set"] = {
            "lifecycle": "retracted", "closed_at": uow.at_us, "closed_by": context.actor.name,
            "closed_reason": f"undone: {context.reason}",
        }  # fmt: skip
    elif event.type not in _INVERSE:
        inverse["set"] = dict(uow.values_before(part["fact"], event.seq) or {})
        if event.type in _STATEMENTS:
            inverse["unsaid"] = event.seq
    if closes(inverse):
        inverse["actor_type"] = context.actor.type
    about = inverse.get("fact") or inverse.get("of")
    fact = uow.fact(about) if about else None
    uow.record(kind, scope=fact.scope if fact else scope, actor=context.actor, parts=[inverse])
