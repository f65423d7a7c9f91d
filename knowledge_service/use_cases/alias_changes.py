"""Assign, move and free aliases of a fact, each as an operation of one act."""

from __future__ import annotations

from knowledge_client.models import (
    ActResult,
    Alias,
    AliasIn,
    AliasRemovalIn,
    AliasSetIn,
    NamedFact,
    RemoveAliasAct,
    SetAliasAct,
)
from knowledge_service.domain import aliases
from knowledge_service.errors import NotFound
from knowledge_service.use_cases import fact_queries
from knowledge_service.use_cases.operations import Performer


def set_alias(performer: Performer, fact_id: str, body: AliasSetIn) -> NamedFact:
    """Assign an alias to a fact; with `move`, a fact that has it loses it.

    Raises:
        NotFound: the fact does not exist or is not visible.
        Conflict: the fact is closed, or another one has the alias and keeps it.
        Forbidden, ScopeReadOnly: the caller may not change the fact, or the one that has the alias.
        SecretRefused: the alias looks like a secret.
    """
    results = performer.earlier_results()
    if results is None:
        alias_in = AliasIn.model_validate(body.model_dump(exclude={"move", "reason"}))
        act = SetAliasAct(fact=fact_id, alias=alias_in, move=body.move)
        results = performer.perform([act], body.reason)
    (alias,) = results[0].aliases
    return _named(performer, results[0], alias)


def remove_alias(performer: Performer, fact_id: str, body: AliasRemovalIn) -> NamedFact:
    """Free an alias of a fact, and return it with the fact that had it.

    Raises:
        NotFound: the fact does not exist, is not visible, or does not have the alias.
        Forbidden, ScopeReadOnly: the caller may not change the fact.
    """
    alias = Alias(namespace=body.namespace, value=body.value)
    results = performer.earlier_results()
    if results is None:
        fact = fact_queries.get_changeable_fact(performer.store, performer.principal, fact_id)
        act = RemoveAliasAct(fact=fact.id, alias=alias)
        results = performer.perform([act], body.reason)
    if results[0].status == "unchanged":
        raise NotFound(f"{aliases.reference(alias)} is not a name of fact {results[0].fact_id}")
    return _named(performer, results[0], alias)


def _named(performer: Performer, result: ActResult, alias: Alias) -> NamedFact:
    fact = fact_queries.get_changeable_fact(performer.store, performer.principal, result.fact_id)
    return NamedFact(
        namespace=alias.namespace, value=alias.value, scope=fact.scope, fact_id=fact.id
    )
