"""Scopes: declared, read, deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from knowledge_client.models import AdoptionResult, ScopeConfig, ScopeOut, ScopePage
from knowledge_service.routes.dependencies import CallerDep, ServicesDep
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
    """List the visible scopes that exist, declared or only written to, by path."""
    return scopes.list_scopes(services.store, principal, cursor=cursor, limit=limit)


@router.get("/scopes/{path:path}")
def get_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Read a scope; one that nobody declared has the defaults."""
    return scopes.get_scope(services.store, principal, path)


@router.post("/scopes/{path:path}:reset")
def reset_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Take a scope's settings back to the defaults; its facts stay. Repeating it is harmless."""
    return scopes.reset_scope(services.store, principal, path)


@router.post("/scopes/{path:path}:adopt")
def adopt_scope(path: str, services: ServicesDep, principal: CallerDep) -> AdoptionResult:
    """Join what the last scope of the same path knew, as after a namespace was made again."""
    return scopes.adopt_scope(services.store, principal, path)


@router.put("/scopes/{path:path}")
def put_scope(
    path: str, body: ScopeConfig, services: ServicesDep, principal: CallerDep
) -> ScopeOut:
    """Declare how knowledge behaves in a scope."""
    return scopes.put_scope(services.store, principal, path, body)


@router.delete("/scopes/{path:path}", status_code=204)
def delete_scope(
    path: str, services: ServicesDep, principal: CallerDep, *, erase: bool = False
) -> None:
    """Retire exactly that scope with its configuration and facts; those below it stay.

    It is no longer served, and a scope of the same path can adopt it. With `erase` it
    cannot: the text of its facts and of their promoted copies is deleted for good, as by `:erase`,
    beside other writes.
    """
    scopes.delete_scope(services.store, principal, path, erase=erase)
