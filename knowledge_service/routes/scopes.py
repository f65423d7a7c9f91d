"""Scopes: declare, read, reset, adopt and delete them."""

from __future__ import annotations

import functools
from typing import Annotated

from fastapi import APIRouter, Query

from knowledge_client.models import AdoptionResult, ScopeConfig, ScopeOut, ScopePage
from knowledge_service.routes.dependencies import CallerDep, OffloadDep, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import scopes

router = APIRouter(prefix="/v1", tags=["scopes"], route_class=Endpoint)


@router.get("/scopes")
def list_scopes(
    services: ServicesDep,
    principal: CallerDep,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> ScopePage:
    """List visible scopes by path, whether declared or only written to."""
    return scopes.list_scopes(services.store, principal, cursor=cursor, limit=limit)


@router.get("/scopes/{path:path}")
def get_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Read a scope; an undeclared one has the defaults."""
    return scopes.get_scope(services.store, principal, path)


@router.post("/scopes/{path:path}:reset")
def reset_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Reset the settings of a scope to the defaults (idempotent); its facts stay."""
    return scopes.reset_scope(services.store, principal, path)


@router.post("/scopes/{path:path}:adopt")
def adopt_scope(path: str, services: ServicesDep, principal: CallerDep) -> AdoptionResult:
    """Take over the facts of the deleted scope that had this path, as of a recreated namespace."""
    return scopes.adopt_scope(services.store, principal, path)


@router.put("/scopes/{path:path}")
def put_scope(
    path: str, body: ScopeConfig, services: ServicesDep, principal: CallerDep
) -> ScopeOut:
    """Declare how knowledge behaves in a scope."""
    return scopes.put_scope(services.store, principal, path, body)


@router.delete("/scopes/{path:path}", status_code=204)
async def delete_scope(path: str, offload: OffloadDep, *, erase: bool = False) -> None:
    """Delete a scope with its configuration and facts; the scopes below it stay.

    Its facts are no longer served; a new scope of the same path can adopt them. With `erase`, it
    cannot: the text of the facts and of their promoted copies is deleted permanently in the
    background, as by `:erase`.
    """
    services = offload.services
    call = functools.partial(
        scopes.delete_scope, services.store, offload.principal, path, erase=erase
    )
    await offload.run(call, "writes")
    if erase:
        await services.wait_for_open_reads()
