"""Add, read and delete the observations of entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_client.models import (
    ActResult,
    EntityObservations,
    Fact,
    FactIn,
    GraphObservations,
    GraphObservationsIn,
    RememberAct,
    RetractAct,
    ScopeRef,
    Source,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Listing
from knowledge_service.use_cases.graph import lookup
from knowledge_service.use_cases.operations import Performer

if TYPE_CHECKING:
    from knowledge_service.ports import Store

OBSERVATION = "observation"
MAX_OBSERVATIONS = 500
"""The maximum number of observations of an entity in an answer."""
_OBSERVATIONS_PAGE = 10_000
DELETED = "deleted from the graph"


def add_observations(performer: Performer, body: GraphObservationsIn) -> GraphObservations:
    """Add observations at the end of those of their entities, all or none.

    Raises:
        NotFound: an entity does not exist or is not visible.
        The errors of `operations.perform`.
    """
    results = performer.earlier_results()
    if results is None:
        results = performer.perform(_observation_acts(performer, body), "observed in the graph")
    return _observations_in(performer, body, results)


def _observation_acts(performer: Performer, body: GraphObservationsIn) -> list[RememberAct]:
    store, principal = performer.store, performer.principal
    acts: list[RememberAct] = []
    contents_by_id: dict[str, list[str]] = {}
    entities = {}
    for addition in body.observations:
        entity = lookup.require(store, principal, addition.entity)
        entities[entity.id] = entity
        contents_by_id.setdefault(entity.id, []).extend(addition.contents)
    for entity in entities.values():
        present = all_observations_of(store, principal, entity)
        texts = {fact.content for fact in present}
        contents = dict.fromkeys(contents_by_id[entity.id])
        new = [text for text in contents if text not in texts]
        end = max((fact.position or 0 for fact in present), default=-1) + 1
        facts = [
            observation_fact(principal, text, position, scope=entity.scope, about=entity.id)
            for position, text in enumerate(new, end)
        ]
        acts += [RememberAct(fact=fact) for fact in facts]
    return acts


def delete_observations(performer: Performer, body: GraphObservationsIn) -> GraphObservations:
    """Retract observations, all or none.

    Raises:
        Forbidden, ScopeReadOnly: the caller may not retract one of them.
    """
    store, principal = performer.store, performer.principal
    results = performer.earlier_results()
    if results is None:
        retracted: dict[str, None] = {}
        for deletion in body.observations:
            entity = lookup.find(store, principal, deletion.entity)
            present = all_observations_of(store, principal, entity) if entity else ()
            retracted |= dict.fromkeys(f.id for f in present if f.content in deletion.contents)
        results = performer.perform([RetractAct(fact=fact_id) for fact_id in retracted], DELETED)
    return _observations_in(performer, body, results)


def _observations_in(
    performer: Performer, body: GraphObservationsIn, results: Sequence[ActResult]
) -> GraphObservations:
    """Return the observations of a request that its acts stored or retracted, each once."""
    store, view = performer.store, performer.principal.view
    facts = [fact for result in results if (fact := store.fact(result.fact_id, view))]
    ids = dict.fromkeys(fact.about for fact in facts if fact.about)
    names = {about: entity.content for about in ids if (entity := store.fact(about, view))}
    pairs = {(names.get(fact.about or ""), fact.content) for fact in facts}
    observations = []
    for deletion in body.observations:
        contents = [
            text for text in dict.fromkeys(deletion.contents) if (deletion.entity, text) in pairs
        ]
        pairs -= {(deletion.entity, text) for text in contents}
        observations.append(EntityObservations(entity=deletion.entity, contents=tuple(contents)))
    return GraphObservations(observations=tuple(observations))


def observation_fact(
    principal: Principal,
    text: str,
    position: int,
    *,
    scope: ScopeRef | None,
    about: str | None = None,
) -> FactIn:
    """Return the fact of an observation at a position."""
    return FactIn(
        content=text,
        scope=scope,
        kind=OBSERVATION,
        about=about,
        position=position,
        source=source_of(principal),
        force=True,
    )


def source_of(principal: Principal) -> Source | None:
    """Return the source of what a caller stores in the graph; None for the default source."""
    return Source(type="explicit_remember") if principal.type == "agent" else None


def first_observations(
    store: Store, principal: Principal, entities: Sequence[Fact]
) -> list[tuple[Fact, ...]]:
    """Return the first observations of each entity, at most one more than an answer contains."""
    ids = [entity.id for entity in entities]
    limit = MAX_OBSERVATIONS + 1
    by_id = store.facts_about(ids, principal.view, kind=OBSERVATION, limit=limit)
    return [by_id.get(entity_id, ()) for entity_id in ids]


def all_observations_of(store: Store, principal: Principal, entity: Fact) -> list[Fact]:
    """Return every observation of an entity in order."""
    observations: list[Fact] = []
    after: tuple[int | None, str] | None = None
    while True:
        listing = Listing(
            view=principal.view,
            limit=_OBSERVATIONS_PAGE,
            kind=OBSERVATION,
            lifecycle="live",
            about=entity.id,
            after_position=after,
        )
        page = store.list_facts(listing)
        observations += page
        if len(page) < _OBSERVATIONS_PAGE:
            return observations
        after = (page[-1].position, page[-1].id)
