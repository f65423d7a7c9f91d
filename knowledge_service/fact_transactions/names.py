"""Assigns aliases to facts, and takes numbers of sequences."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_client.models import Alias, AliasIn, Remembered
from knowledge_service.domain import aliases
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict
from knowledge_service.fact_transactions.unit_of_work import FactUnitOfWork
from knowledge_service.ports import Actor


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
    uow: FactUnitOfWork, facts: Sequence[NewFact], stored: Sequence[Remembered], actor: Actor
) -> tuple[Remembered, ...]:
    """Assign the aliases of facts that were just stored, each as an operation of its own.

    Raises:
        What `assign_aliases` raises.
    """
    if not any(new.aliases for new in facts):
        return tuple(stored)
    results = []
    for new, result in zip(facts, stored, strict=True):
        assigned = []
        for alias in new.aliases:
            uow.begin()
            assigned.append(_assign(uow, new.scope, alias, result.fact_id, actor, separately=True))
        update = {"aliases": tuple(assigned)}
        results.append(result.model_copy(update=update) if assigned else result)
    return tuple(results)


def _assign(
    uow: FactUnitOfWork,
    scope: str,
    alias_in: AliasIn,
    fact_id: str,
    actor: Actor,
    *,
    separately: bool = False,
) -> Alias:
    value = alias_in.value
    if value is None:
        existing = _find_numbered(uow, fact_id, alias_in)
        if existing:
            return existing
        value = _take_number(uow, scope, alias_in, actor)
        if separately:
            uow.begin()
    alias = Alias(namespace=alias_in.namespace, value=value)
    holder = uow.alias_holder(scope, alias)
    if holder and holder.id == fact_id:
        return alias
    if holder and holder.lifecycle != "retracted":
        raise Conflict(f"{aliases.reference(alias)} is a name of fact {holder.id}; take another")
    part = {"namespace": alias.namespace, "value": alias.value, "fact": fact_id}
    if holder:
        part["was"] = holder.id  # so that an erasure finds the earlier events of the alias
    uow.record("alias.set", scope=scope, actor=actor, parts=[part])
    return alias


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
    prefix = alias_in.prefix or ""
    last = uow.last_number(scope, alias_in.namespace, prefix)
    while True:
        last += 1
        value = aliases.numbered(prefix, alias_in.digits, last)
        if uow.alias_holder(scope, Alias(namespace=alias_in.namespace, value=value)) is None:
            break
    part = {"namespace": alias_in.namespace, "prefix": prefix, "last": last}
    uow.record("sequence.taken", scope=scope, actor=actor, parts=[part])
    return value
