"""Assigns, moves and frees aliases of facts, and takes numbers of sequences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from knowledge_client.models import Alias, AliasIn, Fact, Remembered
from knowledge_service.domain import aliases, closure_messages, facts
from knowledge_service.domain.access_control import realm_of
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict, Forbidden, ScopeReadOnly
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork, require_fact
from knowledge_service.ports import ActionContext, Actor


def assign_aliases(
    uow: FactUnitOfWork, new: NewFact, fact_id: str, actor: Actor
) -> tuple[Alias, ...]:
    """Assign the aliases that a fact was remembered with.

    A retracted fact keeps its aliases only until another fact takes them.

    Raises:
        Conflict: another fact, which is not retracted, has the alias already.
    """
    return tuple(_assign(uow, new.scope, alias, fact_id, actor) for alias in new.aliases)


def assign_aliases_separately(
    uow: FactUnitOfWork, new_facts: Sequence[NewFact], stored: Sequence[Remembered], actor: Actor
) -> tuple[Remembered, ...]:
    """Assign the aliases of facts that were just stored, each as an operation of its own.

    Raises:
        Conflict: as for `assign_aliases`.
    """
    if not any(new.aliases for new in new_facts):
        return tuple(stored)
    results = []
    for new, result in zip(new_facts, stored, strict=True):
        assigned = []
        for alias in new.aliases:
            uow.begin()
            assigned.append(_assign(uow, new.scope, alias, result.fact_id, actor, separately=True))
        update = {"aliases": tuple(assigned)}
        results.append(result.model_copy(update=update) if assigned else result)
    return tuple(results)


def pass_on_aliases(
    uow: FactUnitOfWork, old: Fact, new: NewFact, successor_id: str, actor: Actor
) -> None:
    """Move the aliases of a fact to its successor; a renamed entity gets its new name as well.

    Raises:
        Conflict: another fact has the new name.
    """
    uow.transfer_aliases(old.id, successor_id, actor=actor)
    name = facts.entity_name(new)
    if name is not None and new.content != old.content:
        alias_in = AliasIn(namespace=aliases.ENTITY, value=name)
        _assign(uow, old.scope, alias_in, successor_id, actor)


def set_alias(
    uow: FactUnitOfWork, fact_id: str, alias_in: AliasIn, context: ActionContext, *, move: bool
) -> tuple[Alias, bool]:
    """Assign an alias to a live fact within an operation; return it, and whether it is new.

    With `move`, the fact that has the alias loses it.

    Raises:
        Conflict: the fact is closed, or another one has the alias and keeps it.
        Forbidden, ScopeReadOnly: the actor may not change the fact that has the alias.
    """
    fact = require_fact(uow, fact_id)
    if fact.lifecycle != "live":
        raise Conflict(
            f"fact {fact_id} is {closure_messages.describe_closure(fact, 'already')};"
            " only live facts get aliases"
        )
    alias = _alias_of(uow, fact.scope, alias_in, fact_id, context.actor)
    earlier = uow.alias_holder(fact.scope, alias)
    if earlier and earlier.id == fact_id:
        return alias, False
    holder = _find_other_holder(uow, fact.scope, alias, {fact_id}, context.actor)
    if holder:
        if not (move and _can_read(context.actor, holder)):
            raise _taken_error(alias, holder, context.actor)
        _require_may_move(uow, alias, holder, context)
        if holder.scope != fact.scope:
            _record_removal(uow, holder, alias, context)
    part = _act_part(fact, alias, context)
    if earlier:
        part["was"] = earlier.id
    uow.record("alias.set", scope=fact.scope, actor=context.actor, parts=[part])
    return alias, True


def remove_alias(uow: FactUnitOfWork, fact_id: str, alias: Alias, context: ActionContext) -> bool:
    """Free an alias of a fact within an operation; return whether the fact had it.

    Raises:
        NotFound: no such fact.
    """
    fact = require_fact(uow, fact_id)
    holder = uow.alias_holder(fact.scope, alias)
    if holder is None or holder.id != fact_id:
        return False
    _record_removal(uow, fact, alias, context)
    return True


def require_aliases_free(
    uow: FactUnitOfWork, fact: Fact, actor: Actor, excluded_ids: Collection[str] = ()
) -> None:
    """Check that no other fact of the realm has taken an alias of a fact that becomes live.

    Raises:
        Conflict: another fact has one.
    """
    for alias in uow.aliases(fact.id):
        require_alias_free(uow, fact, alias, actor, excluded_ids)


def require_alias_free(
    uow: FactUnitOfWork, fact: Fact, alias: Alias, actor: Actor, excluded_ids: Collection[str] = ()
) -> None:
    """Check that no fact but this one and the excluded ones has an alias.

    Raises:
        Conflict: another fact has one.
    """
    holder = _find_other_holder(uow, fact.scope, alias, {fact.id, *excluded_ids}, actor)
    if holder:
        raise Conflict(f"{aliases.reference(alias)} is a name of another fact; free it first")


def _record_removal(uow: FactUnitOfWork, fact: Fact, alias: Alias, context: ActionContext) -> None:
    part = _act_part(fact, alias, context)
    uow.record("alias.removed", scope=fact.scope, actor=context.actor, parts=[part])


def _act_part(fact: Fact, alias: Alias, context: ActionContext) -> dict[str, str]:
    """Return the part of an event that undo of the fact reverts on its own."""
    return {
        "namespace": alias.namespace, "value": alias.value, "fact": fact.id, "of": fact.id,
        "reason": context.reason,
    }  # fmt: skip


def _require_may_move(
    uow: FactUnitOfWork, alias: Alias, holder: Fact, context: ActionContext
) -> None:
    """Check that the actor may take an alias from the fact that has it.

    Raises:
        Forbidden, ScopeReadOnly: it may not.
    """
    if context.may_change and not context.may_change(holder):
        raise Forbidden(
            f"{context.actor.name} may read fact {holder.id}"
            f" but not move {aliases.reference(alias)} from it"
        )
    if uow.config(holder.scope).read_only:
        raise ScopeReadOnly(f"scope {holder.scope} is read-only; its KnowledgeScope says so")


def _assign(
    uow: FactUnitOfWork,
    scope: str,
    alias_in: AliasIn,
    fact_id: str,
    actor: Actor,
    *,
    separately: bool = False,
) -> Alias:
    alias = _alias_of(uow, scope, alias_in, fact_id, actor, separately=separately)
    earlier = uow.alias_holder(scope, alias)
    if earlier and earlier.id == fact_id:
        return alias
    holder = _find_other_holder(uow, scope, alias, {fact_id}, actor)
    if holder:
        raise _taken_error(alias, holder, actor)
    part = {"namespace": alias.namespace, "value": alias.value, "fact": fact_id}
    if earlier:
        part["was"] = earlier.id  # so that an erasure finds the earlier events of the alias
    uow.record("alias.set", scope=scope, actor=actor, parts=[part])
    return alias


def _find_other_holder(
    uow: FactUnitOfWork, scope: str, alias: Alias, excluded_ids: Collection[str], actor: Actor
) -> Fact | None:
    """Return a fact that is not retracted and has an alias, or None.

    Aliases of some namespaces are looked for in all scopes of the realm. The name of an entity that
    the actor cannot see is free, so that it learns nothing about other teams.
    """
    holder = uow.alias_holder(scope, alias)
    if holder and holder.id not in excluded_ids and holder.lifecycle != "retracted":
        return holder
    if alias.namespace not in aliases.UNIQUE_IN_REALM:
        return None
    for candidate in uow.alias_holders_in_realm(realm_of(scope), alias):
        if candidate.id in excluded_ids or candidate.scope == scope:
            continue
        if alias.namespace != aliases.ENTITY or _can_read(actor, candidate, is_known_to_all=False):
            return candidate
    return None


def _can_read(actor: Actor, fact: Fact, *, is_known_to_all: bool = True) -> bool:
    if actor.view is None:
        return is_known_to_all
    return actor.view.can_read_fact(fact.scope, fact.review)


def _taken_error(alias: Alias, holder: Fact, actor: Actor) -> Conflict:
    name = f"fact {holder.id}" if _can_read(actor, holder) else "a fact that is not visible to you"
    return Conflict(f"{aliases.reference(alias)} is a name of {name}; take another")


def _alias_of(
    uow: FactUnitOfWork,
    scope: str,
    alias_in: AliasIn,
    fact_id: str,
    actor: Actor,
    *,
    separately: bool = False,
) -> Alias:
    """Return the requested alias; a prefix gets the next number of its sequence."""
    value = alias_in.value
    if value is None:
        existing = _find_numbered(uow, fact_id, alias_in)
        if existing:
            return existing
        value = _take_number(uow, scope, alias_in, actor)
        if separately:
            uow.begin()
    return Alias(namespace=alias_in.namespace, value=value)


def _find_numbered(uow: FactUnitOfWork, fact_id: str, alias_in: AliasIn) -> Alias | None:
    prefix = alias_in.prefix or ""
    for alias in uow.aliases(fact_id):
        rest = alias.value.removeprefix(prefix)
        is_number = rest.isascii() and rest.isdecimal()
        if alias.namespace == alias_in.namespace and alias.value.startswith(prefix) and is_number:
            return alias
    return None


def _take_number(uow: FactUnitOfWork, scope: str, alias_in: AliasIn, actor: Actor) -> str:
    """Return the next number, skipping numbers that were assigned by hand."""
    namespace, prefix = alias_in.namespace, alias_in.prefix or ""
    last = uow.last_number(scope, namespace, prefix)
    is_unique_in_realm = namespace in aliases.UNIQUE_IN_REALM
    if is_unique_in_realm:
        last = max(last, uow.last_number_in_realm(realm_of(scope), namespace, prefix))
    while True:
        last += 1
        alias = Alias(namespace=namespace, value=aliases.numbered(prefix, alias_in.digits, last))
        if uow.alias_holder(scope, alias) is not None:
            continue
        if not (is_unique_in_realm and uow.alias_holders_in_realm(realm_of(scope), alias)):
            break
    part = {"namespace": namespace, "prefix": prefix, "last": last}
    uow.record("sequence.taken", scope=scope, actor=actor, parts=[part])
    return alias.value
