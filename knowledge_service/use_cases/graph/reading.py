"""Read the graph: in pages, by names, or by a part of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_client.models import Fact, Graph, GraphNamesIn
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Listing
from knowledge_service.use_cases import arms, authorization, pagination
from knowledge_service.use_cases.graph import lookup, views
from knowledge_service.use_cases.graph.observations import OBSERVATION

if TYPE_CHECKING:
    from knowledge_service.ports import Store

# A search reads about this many matching observations, even of entities that it has already.
_SEARCHED_OBSERVATIONS = 1000


def read_graph(  # noqa: PLR0913 (one argument per filter)
    store: Store,
    principal: Principal,
    *,
    scope: str | None,
    contains: str | None,
    cursor: str | None,
    limit: int,
    outgoing: bool = False,
) -> Graph:
    """Return a page of entities, newest first, and the relations among them.

    With `outgoing`, also the relations that lead from them to other entities, so that all pages
    together have every relation once. With `contains`, only entities whose name, type or an
    observation contains that text, all on a single page.

    Raises:
        InvalidBody: the cursor or the scope is malformed.
        ScopeForbidden: the named scope is out of reach.
    """
    scopes = authorization.authorize_read([scope], principal) if scope else None
    if arms.is_without_facts(store, principal):
        return Graph(entities=(), relations=())
    if contains:
        entities, has_more = _search(store, principal, contains, scopes, limit)
        graph = views.graph_of(store, principal, entities, outgoing=outgoing)
        return graph.model_copy(update={"truncated": graph.truncated or has_more})
    listing = Listing(
        view=principal.view,
        limit=limit + 1,
        scopes=scopes,
        kind=lookup.ENTITY,
        lifecycle="live",
        alias_namespace=lookup.NAMESPACE,
        before_id=pagination.decode(cursor),
    )
    page, next_cursor = pagination.split_page(
        store.list_facts(listing), limit, lambda fact: fact.id
    )
    graph = views.graph_of(store, principal, page, outgoing=outgoing)
    is_truncated = graph.truncated or next_cursor is not None
    return graph.model_copy(update={"cursor": next_cursor, "truncated": is_truncated})


def open_entities(store: Store, principal: Principal, body: GraphNamesIn) -> Graph:
    """Return entities by their names, and the relations among them; missing ones are left out."""
    if arms.is_without_facts(store, principal):
        return Graph(entities=(), relations=())
    return views.graph_of(store, principal, lookup.find_all(store, principal, body.names))


def _search(
    store: Store,
    principal: Principal,
    text: str,
    scopes: tuple[str, ...] | None,
    limit: int,
) -> tuple[list[Fact], bool]:
    """Return entities by their names and types, then by their observations.

    The second value says whether there can be more.
    """
    entity_listing = Listing(
        view=principal.view,
        limit=limit + 1,
        scopes=scopes,
        kind=lookup.ENTITY,
        lifecycle="live",
        schema=lookup.SCHEMA,
        contains=text,
    )
    entities = {fact.id: fact for fact in store.list_facts(entity_listing)}
    observed = replace(entity_listing, kind=OBSERVATION, schema=None)
    searched = 0
    while len(entities) <= limit and searched < _SEARCHED_OBSERVATIONS:
        page = store.list_facts(observed)
        entities |= _entities_of(store, principal, page, entities)
        searched += len(page)
        if len(page) < observed.limit:
            return list(entities.values())[:limit], len(entities) > limit
        observed = replace(observed, before_id=page[-1].id)
    return list(entities.values())[:limit], True


def _entities_of(
    store: Store,
    principal: Principal,
    observations: Sequence[Fact],
    found_entities: Mapping[str, Fact],
) -> dict[str, Fact]:
    """Return the live entities that observations are about, without those in `found_entities`."""
    ids = dict.fromkeys(observation.about for observation in observations if observation.about)
    new = [about for about in ids if about not in found_entities]
    versions = store.current_versions(new, principal.view) if new else {}
    entities = (versions[about] for about in new if about in versions)
    return {
        entity.id: entity
        for entity in entities
        if (entity.kind, entity.schema_) == (lookup.ENTITY, lookup.SCHEMA)
    }
