"""Show entities with their observations, and the relations among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from knowledge_client.models import Fact, Graph, GraphEntity, GraphRelation
from knowledge_service.domain.principals import Principal
from knowledge_service.use_cases.graph import lookup, observations, relations

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_MAX_RELATIONS = 1000
_MAX_OUTGOING = 10_000


def graph_of(
    store: Store, principal: Principal, entities: Sequence[Fact], *, outgoing: bool = False
) -> Graph:
    """Return entities with their observations, and the relations among them, both bounded.

    With `outgoing`, also the relations that lead from them to other entities.
    """
    names = {entity.id: entity.content for entity in entities}
    observed = observations.first_observations(store, principal, entities)
    if outgoing:
        related = _relations_from(store, principal, names)
    else:
        links = store.links_among(tuple(names), principal.view)
        related = [relations.relation_of(link, names) for link in links]
    limit = _MAX_OUTGOING if outgoing else _MAX_RELATIONS
    return Graph(
        entities=tuple(
            _to_entity(entity, facts[: observations.MAX_OBSERVATIONS])
            for entity, facts in zip(entities, observed, strict=True)
        ),
        relations=tuple(related[:limit]),
        truncated=len(related) > limit
        or any(len(facts) > observations.MAX_OBSERVATIONS for facts in observed),
    )


def _relations_from(
    store: Store, principal: Principal, names: dict[str, str]
) -> list[GraphRelation]:
    links = store.links_from(
        tuple(names), principal.view, to_kind=lookup.ENTITY, limit=_MAX_OUTGOING + 1
    )
    ends = dict(names)
    for fact_id in {link.to for link in links} - names.keys():
        end = store.fact(fact_id, principal.view)
        if end is not None and end.schema_ == lookup.SCHEMA:
            ends[end.id] = end.content
    return [relations.relation_of(link, ends) for link in links if link.to in ends]


def _to_entity(fact: Fact, observed: Iterable[Fact]) -> GraphEntity:
    return GraphEntity(
        id=fact.id,
        scope=fact.scope,
        name=fact.content,
        entity_type=fact.subject or "",
        observations=tuple(observation.content for observation in observed),
        metadata=fact.data,
    )
