"""The graph: entities, observations and relations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from knowledge_client.models import (
    Graph,
    GraphEntitiesIn,
    GraphNames,
    GraphNamesIn,
    GraphObservations,
    GraphObservationsIn,
    GraphRelations,
    GraphRelationsIn,
)
from knowledge_service.domain.principals import Principal
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import idempotency
from knowledge_service.use_cases.graph import entities, observations, reading, relations
from knowledge_service.use_cases.operations import Performer
from knowledge_service.use_cases.services import Services

router = APIRouter(prefix="/v1", tags=["graph"], route_class=Endpoint)


@router.get("/graph")
def read_graph(  # noqa: PLR0913 (one argument per filter)
    services: ServicesDep,
    principal: CallerDep,
    scope: str | None = None,
    contains: Annotated[str | None, Query(min_length=1, max_length=512)] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    *,
    outgoing: bool = False,
) -> Graph:
    """Read entities, newest first, or those that contain a text, and the relations among them.

    With `outgoing`, also the relations that lead from them to other entities.
    """
    return reading.read_graph(
        services.store,
        principal,
        scope=scope,
        contains=contains,
        cursor=cursor,
        limit=limit,
        outgoing=outgoing,
    )


@router.post("/graph:open")
def open_entities(body: GraphNamesIn, services: ServicesDep, principal: CallerDep) -> Graph:
    """Read entities by their names; missing ones are left out."""
    return reading.open_entities(services.store, principal, body)


@router.post("/graph/entities")
def create_entities(
    body: GraphEntitiesIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> Graph:
    """Create the entities that do not exist, and return them."""
    performer = _performer(services, principal, key, "graph/entities", body)
    return entities.create_entities(performer, body)


@router.post("/graph/entities:delete")
def delete_entities(
    body: GraphNamesIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> GraphNames:
    """Retract entities with their observations."""
    performer = _performer(services, principal, key, "graph/entities:delete", body)
    return entities.delete_entities(performer, body)


@router.post("/graph/observations")
def add_observations(
    body: GraphObservationsIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> GraphObservations:
    """Add observations to entities, and return those that are new."""
    performer = _performer(services, principal, key, "graph/observations", body)
    return observations.add_observations(performer, body)


@router.post("/graph/observations:delete")
def delete_observations(
    body: GraphObservationsIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> GraphObservations:
    """Retract observations, and return those that were there."""
    performer = _performer(services, principal, key, "graph/observations:delete", body)
    return observations.delete_observations(performer, body)


@router.post("/graph/relations")
def create_relations(
    body: GraphRelationsIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> GraphRelations:
    """Create the relations that do not exist, and return them."""
    performer = _performer(services, principal, key, "graph/relations", body)
    return relations.create_relations(performer, body)


@router.post("/graph/relations:delete")
def delete_relations(
    body: GraphRelationsIn, services: ServicesDep, principal: CallerDep, key: KeyHeader = None
) -> GraphRelations:
    """Close relations, and return those that were there."""
    performer = _performer(services, principal, key, "graph/relations:delete", body)
    return relations.delete_relations(performer, body)


def _performer(
    services: Services, principal: Principal, key: str | None, operation: str, body: BaseModel
) -> Performer:
    repeat = idempotency.bind_key(key, principal, operation, body)
    return Performer(services, principal, repeat)
