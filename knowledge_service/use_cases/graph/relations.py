"""Create, read and delete the relations between entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_client import relation_links
from knowledge_client.models import (
    ActResult,
    Fact,
    GraphRelation,
    GraphRelationIn,
    GraphRelations,
    GraphRelationsIn,
    Link,
    LinkAct,
    LinkIn,
    UnlinkAct,
)
from knowledge_service.use_cases.graph import lookup, observations
from knowledge_service.use_cases.operations import Performer

# How many links of a fact are read to find the ones that an earlier, equal request removed.
_MAX_LINKS = 1000


def create_relations(performer: Performer, body: GraphRelationsIn) -> GraphRelations:
    """Create the relations that do not exist, all or none, and return them.

    Raises:
        NotFound: an entity does not exist or is not visible.
        Forbidden, ScopeReadOnly: the caller may not write in the scope of the first entity.
        InvalidBody: the type is one of the service's own.
    """
    results = performer.earlier_results()
    if results is None:
        store, principal = performer.store, performer.principal
        acts = [
            LinkAct(
                link=_link_of(
                    new_relation,
                    lookup.require(store, principal, new_relation.from_),
                    lookup.require(store, principal, new_relation.to),
                )
            )
            for new_relation in body.relations
        ]
        results = performer.perform(acts, "related in the graph")
    created = [
        _stated(relation)
        for relation, result in zip(body.relations, results, strict=True)
        if result.status == "linked"
    ]
    return GraphRelations(relations=tuple(created))


def delete_relations(performer: Performer, body: GraphRelationsIn) -> GraphRelations:
    """Close relations, all or none.

    Raises:
        Forbidden, ScopeReadOnly: the caller may not write in the scope of the first entity.
    """
    results = performer.earlier_results()
    if results is None:
        acts = _unlink_acts(performer, body)
        performer.perform([act for _, act in acts], observations.DELETED)
        return GraphRelations(relations=tuple(_stated(relation) for relation, _ in acts))
    removed = set(_names_of_links(performer, results))
    return GraphRelations(
        relations=tuple(
            _stated(relation)
            for relation in body.relations
            if (relation.from_, relation.to, relation_links.link_type(relation.relation_type))
            in removed
        )
    )


def _unlink_acts(
    performer: Performer, body: GraphRelationsIn
) -> list[tuple[GraphRelationIn, UnlinkAct]]:
    """Return the relations that exist, each once, with the act that removes it."""
    store, principal = performer.store, performer.principal
    acts: dict[tuple[str, str, str], tuple[GraphRelationIn, UnlinkAct]] = {}
    for relation in body.relations:
        start = lookup.find(store, principal, relation.from_)
        end = lookup.find(store, principal, relation.to)
        if start is None or end is None:
            continue
        key = (start.id, end.id, relation_links.link_type(relation.relation_type))
        live = store.links_among((start.id, end.id), principal.view)
        if any((link.from_, link.to, link.type) == key for link in live):
            act = UnlinkAct(from_=start.id, to=end.id, type=key[2])
            acts.setdefault(key, (relation, act))
    return list(acts.values())


def _names_of_links(
    performer: Performer, results: Sequence[ActResult]
) -> Iterator[tuple[str, str, str]]:
    """Yield the names of both ends, and the type, of the links that an operation removed."""
    store, view = performer.store, performer.principal.view
    for result in results:
        page = store.links(result.fact_id, view, types=(), before_id=None, limit=_MAX_LINKS)
        for link in page.links:
            start, end = store.fact(link.from_, view), store.fact(link.to, view)
            if link.id == result.link_id and start and end:
                yield start.content, end.content, link.type


def _link_of(relation: GraphRelationIn, start: Fact, end: Fact) -> LinkIn:
    return LinkIn(
        from_=start.id,
        to=end.id,
        type=relation_links.link_type(relation.relation_type),
        weight=relation.strength,
        data=relation_links.link_data(relation.relation_type, relation.metadata),
    )


def relation_of(link: Link, names: dict[str, str]) -> GraphRelation:
    """Return a link between named entities as a relation."""
    relation_type, metadata = relation_links.read_relation(link.type, link.data)
    return GraphRelation(
        from_=names[link.from_],
        to=names[link.to],
        relation_type=relation_type,
        strength=link.weight,
        metadata=metadata,
    )


def _stated(relation: GraphRelationIn) -> GraphRelation:
    return GraphRelation.model_validate(relation.model_dump())
