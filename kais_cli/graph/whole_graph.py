"""Read the graph as server-memory shows it: whole, oldest first, with all relations of an entity.

The service answers in pages, and with the relations among the entities of an answer. Here, the
relations lead from or to these entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.graph import export
from knowledge_client import models, relation_links

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact, Graph, GraphEntity, GraphRelation, Link

MAX_ENTITIES = 10_000
"""Entities of an answer; an arbitrary number."""
_PAGE = 200
_NAMES = 100
_MAX_NEIGHBOURS = 500
_ENTITY, _SCHEMA = "entity", "graph/1"


def read(client: KnowledgeClient) -> Graph:
    """Return all entities, oldest first, and all relations.

    Raises:
        Refused: there are more entities than an answer may have.
    """
    entities: list[GraphEntity] = []
    relations: list[GraphRelation] = []
    cursor: str | None = None
    while True:
        page = _page(client, cursor)
        entities += page.entities
        relations += page.relations
        cursor = page.cursor
        if len(entities) > MAX_ENTITIES:
            raise errors.Refused(
                f"the graph has more than {MAX_ENTITIES:,} entities; use search_nodes or open_nodes"
            )
        if cursor is None:
            return models.Graph(entities=_whole(client, entities), relations=tuple(relations))


def search(client: KnowledgeClient, text: str) -> Graph:
    """Return the entities that contain a text, with their relations.

    Raises:
        Refused: the service returns a part of them, and the graph is too large to read it whole.
    """
    graph = client.read_graph(contains=text, limit=_PAGE)
    if graph.truncated:
        try:
            everything = read(client)
        except errors.Refused as exc:
            raise errors.Refused(
                f"more than {_PAGE} entities contain this text; search for a longer one"
            ) from exc
        matching = [entity for entity in everything.entities if _contains(entity, text)]
        return _with_relations(matching, everything.relations)
    entities = _whole(client, graph.entities)
    return models.Graph(entities=entities, relations=_relations_of(client, entities))


def open_entities(client: KnowledgeClient, names: Sequence[str]) -> Graph:
    """Return entities by their names, oldest first, with their relations."""
    entities: list[GraphEntity] = []
    for start in range(0, len(names), _NAMES):
        body = models.GraphNamesIn(names=tuple(names[start : start + _NAMES]))
        entities += client.open_entities(body).entities
    whole = _whole(client, entities)
    return models.Graph(entities=whole, relations=_relations_of(client, whole))


def _contains(entity: GraphEntity, text: str) -> bool:
    texts = (entity.name, entity.entity_type, *entity.observations)
    return any(text.casefold() in each.casefold() for each in texts)


def _with_relations(entities: Sequence[GraphEntity], relations: Iterable[GraphRelation]) -> Graph:
    names = {entity.name for entity in entities}
    related = tuple(each for each in relations if each.from_ in names or each.to in names)
    return models.Graph(entities=tuple(entities), relations=related)


def _whole(client: KnowledgeClient, entities: Iterable[GraphEntity]) -> tuple[GraphEntity, ...]:
    """Return entities oldest first, each with all of its observations."""
    return tuple(
        entity.model_copy(update={"observations": export.observations_of(client, entity)})
        for entity in sorted(entities, key=lambda entity: entity.id)
    )


def _relations_of(
    client: KnowledgeClient, entities: Sequence[GraphEntity]
) -> tuple[GraphRelation, ...]:
    """Return the relations that lead from or to some entities, each once."""
    if len(entities) > _NAMES:
        return _relations_in_pages(client, entities)
    relations: dict[str, GraphRelation] = {}
    for entity in entities:
        near = client.neighbors(entity.id, limit=_MAX_NEIGHBOURS)
        if near.truncated:
            return _relations_in_pages(client, entities)
        names = {each.fact.id: each.fact.content for each in near.facts if _is_entity(each.fact)}
        names[entity.id] = entity.name
        relations |= {
            link.id: _relation(link, names)
            for link in near.links
            if entity.id in (link.from_, link.to) and {link.from_, link.to} <= names.keys()
        }
    return tuple(relations.values())


def _relations_in_pages(
    client: KnowledgeClient, entities: Sequence[GraphEntity]
) -> tuple[GraphRelation, ...]:
    """Return the relations of some entities from all pages, with one page in memory."""
    relations: list[GraphRelation] = []
    cursor: str | None = None
    while True:
        page = _page(client, cursor)
        relations += _with_relations(entities, page.relations).relations
        cursor = page.cursor
        if cursor is None:
            return tuple(relations)


def _page(client: KnowledgeClient, cursor: str | None) -> Graph:
    """Return a page of entities with the relations that lead from them.

    Raises:
        Refused: more relations lead from these entities than an answer has.
    """
    page = client.read_graph(cursor=cursor, limit=_PAGE, outgoing=True)
    export.require_all_relations(page)
    return page


def _is_entity(fact: Fact) -> bool:
    return (fact.kind, fact.schema_) == (_ENTITY, _SCHEMA)


def _relation(link: Link, names: dict[str, str]) -> GraphRelation:
    relation_type, _ = relation_links.read_relation(link.type, link.data)
    return models.GraphRelation(
        from_=names[link.from_], to=names[link.to], relation_type=relation_type
    )
