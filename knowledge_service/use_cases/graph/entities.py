"""Create and delete entities."""

from __future__ import annotations

from knowledge_client.models import (
    ActResult,
    AliasIn,
    Fact,
    FactIn,
    Graph,
    GraphEntitiesIn,
    GraphEntityIn,
    GraphNames,
    GraphNamesIn,
    RememberAct,
    RetractAct,
    ScopeRef,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict
from knowledge_service.use_cases import authorization
from knowledge_service.use_cases.graph import lookup, observations, views
from knowledge_service.use_cases.operations import Performer


def create_entities(performer: Performer, body: GraphEntitiesIn) -> Graph:
    """Create the entities that do not exist, all or none, and return them.

    Raises:
        The errors of `operations.perform`.
    """
    results = performer.earlier_results()
    if results is None:
        results = _create_missing(performer, body)
    store, view = performer.store, performer.principal.view
    # Only entities have names.
    ids = [result.fact_id for result in results if result.aliases]
    entities = [fact for fact_id in ids if (fact := store.fact(fact_id, view))]
    return views.graph_of(store, performer.principal, entities)


def _create_missing(performer: Performer, body: GraphEntitiesIn) -> tuple[ActResult, ...]:
    """Create the missing entities; plan again when another request has created one of them."""
    acts = _entity_acts(performer, body)
    while True:
        try:
            return performer.perform(acts, "created in the graph")
        except Conflict:
            remaining = _entity_acts(performer, body)
            if len(remaining) >= len(acts):
                raise
            acts = remaining


def _entity_acts(performer: Performer, body: GraphEntitiesIn) -> list[RememberAct]:
    store, principal = performer.store, performer.principal
    by_name = {entity.name: entity for entity in reversed(body.entities)}
    scope = authorization.canonical_path(body.scope, principal) if body.scope else principal.home
    taken_names = lookup.taken_names(store, principal, by_name, scope)
    new = [entity for name, entity in reversed(by_name.items()) if name not in taken_names]
    facts = [_entity_fact(principal, entity, body.scope) for entity in new]
    facts += [
        observations.observation_fact(
            principal, text, position, scope=body.scope, about=f"act:{number}"
        )
        for number, entity in enumerate(new)
        for position, text in enumerate(dict.fromkeys(entity.observations))
    ]
    return [RememberAct(fact=fact) for fact in facts]


def delete_entities(performer: Performer, body: GraphNamesIn) -> GraphNames:
    """Retract entities and their observations, all or none; their relations end with them.

    Raises:
        Forbidden, ScopeReadOnly: the caller may not retract one of them.
    """
    store, principal = performer.store, performer.principal
    results = performer.earlier_results()
    if results is None:
        retracted: list[Fact] = []
        for entity in lookup.find_all(store, principal, body.names):
            retracted += (*observations.all_observations_of(store, principal, entity), entity)
        acts = [RetractAct(fact=fact.id) for fact in retracted]
        results = performer.perform(acts, observations.DELETED)
    facts = (store.fact(result.fact_id, principal.view) for result in results)
    deleted = [fact for fact in facts if fact and fact.kind == lookup.ENTITY]
    names = {fact.content for fact in deleted}
    ids = {fact.id for fact in deleted}
    # A renamed entity has its earlier names as well.
    aliases = store.facts_named(lookup.NAMESPACE, body.names, principal.view)
    names |= {name for name, fact in aliases if fact.id in ids}
    return GraphNames(names=tuple(name for name in dict.fromkeys(body.names) if name in names))


def _entity_fact(principal: Principal, entity: GraphEntityIn, scope: ScopeRef | None) -> FactIn:
    return FactIn(
        content=entity.name,
        scope=scope,
        kind=lookup.ENTITY,
        subject=entity.entity_type,
        data=entity.metadata,
        schema_=lookup.SCHEMA,
        aliases=(AliasIn(namespace=lookup.NAMESPACE, value=entity.name),),
        source=observations.source_of(principal),
        force=True,
    )
