"""Links and neighbours of facts, their provenance and their impact."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from knowledge_client.models import (
    AliasPage,
    FactProvenance,
    Impact,
    Linked,
    LinkIn,
    LinkPage,
    Neighborhood,
)
from knowledge_service.routes.dependencies import CallerDep, KeyHeader, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import alias_lists, idempotency, links, provenance

_MAX_REFERENCE = 1200
Types = Annotated[list[str], Query(alias="type", max_length=32)]
End = Annotated[str, Query(max_length=_MAX_REFERENCE)]

router = APIRouter(prefix="/v1", tags=["links"], route_class=Endpoint)


@router.post("/links", status_code=201, responses={200: {"model": Linked}})
def link(
    body: LinkIn, services: ServicesDep, principal: CallerDep, response: Response,
    key: KeyHeader = None,
) -> Linked:  # fmt: skip
    """Link two facts: 201 for a new link, 200 for an existing one or a link to itself."""
    linked = links.create_link(
        services.store, principal, body, idempotency.bind_key(key, principal, "links", body)
    )
    response.status_code = 201 if linked.status == "created" else 200
    return linked


@router.delete("/links", status_code=204)
def unlink(
    services: ServicesDep,
    principal: CallerDep,
    from_: Annotated[str, Query(alias="from", max_length=_MAX_REFERENCE)],
    to: End,
    kind: Annotated[str, Query(alias="type", max_length=64)] = "related",
) -> None:
    """Remove a link; its history stays."""
    links.delete_link(services.store, principal, from_, to, kind)


@router.get("/facts/{fact_id}/links")
def list_links(
    fact_id: str,
    services: ServicesDep,
    principal: CallerDep,
    types: Types = [],  # noqa: B006 - FastAPI copies it
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> LinkPage:
    """List the links of a fact in both directions, closed ones too, newest first."""
    return links.list_links(
        services.store, principal, fact_id, types=types, cursor=cursor, limit=limit
    )


@router.get("/aliases")
def list_aliases(  # noqa: PLR0913 (one argument per filter)
    services: ServicesDep,
    principal: CallerDep,
    namespace: Annotated[str, Query(min_length=1, max_length=63)],
    prefix: Annotated[str, Query(max_length=512)] = "",
    *,
    scope: str | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> AliasPage:
    """List the aliases of a namespace that begin with a prefix, in the order of their values."""
    return alias_lists.list_aliases(
        services.store,
        principal,
        namespace=namespace,
        prefix=prefix,
        scope=scope,
        cursor=cursor,
        limit=limit,
    )


@router.get("/facts/{fact_id}/neighbors")
def neighbors(
    fact_id: str,
    services: ServicesDep,
    principal: CallerDep,
    types: Types = [],  # noqa: B006 - FastAPI copies it
    depth: Annotated[int, Query(ge=1, le=5)] = 1,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Neighborhood:
    """Find the live facts up to `depth` links away, the nearest first."""
    return links.find_neighbors(
        services.store, principal, fact_id, types=types, depth=depth, limit=limit
    )


@router.get("/facts/{fact_id}/why")
def why(fact_id: str, services: ServicesDep, principal: CallerDep) -> FactProvenance:
    """Show where a fact comes from."""
    return provenance.get_provenance(services.store, principal, fact_id)


@router.get("/facts/{fact_id}/impact")
def impact(
    fact_id: str,
    services: ServicesDep,
    principal: CallerDep,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> Impact:
    """List the recalls that returned a fact, and the outcomes of their runs."""
    return provenance.get_impact(services.store, principal, fact_id, limit=limit)
