"""Scopes: declared, read, deleted."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from knowledge_client.models import ScopeConfig, ScopeOut, ScopePage
from knowledge_service.domain.visibility import Principal
from knowledge_service.errors import NotFound
from knowledge_service.flows import access
from knowledge_service.routes.bodies import StrictRoute
from knowledge_service.routes.dependencies import CallerDep, Services, ServicesDep

router = APIRouter(prefix="/v1", tags=["scopes"], route_class=StrictRoute)


@router.get("/scopes")
def list_scopes(services: ServicesDep, principal: CallerDep) -> ScopePage:
    """List the visible scopes that exist, declared or only written to, by path."""
    paths = services.store.list_scopes(principal.view)
    return ScopePage(scopes=_describe(services, principal, paths))


@router.get("/scopes/{path:path}")
def get_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Read a scope; one that nobody declared has the defaults."""
    paths = access.readable([path], principal)
    return _describe(services, principal, paths)[0]


@router.put("/scopes/{path:path}")
def put_scope(
    path: str, body: ScopeConfig, services: ServicesDep, principal: CallerDep
) -> ScopeOut:
    """Declare how knowledge behaves in a scope."""
    canonical = access.path_of(path, principal)
    access.require(principal, "admin", canonical)
    services.store.put_scope(canonical, body, actor=access.actor(principal))
    return _describe(services, principal, [canonical])[0]


@router.delete("/scopes/{path:path}", status_code=204)
def delete_scope(path: str, services: ServicesDep, principal: CallerDep) -> None:
    """Delete exactly that scope with its configuration and facts; those below it stay."""
    canonical = access.path_of(path, principal)
    access.require(principal, "admin", canonical)
    if not services.store.delete_scope(canonical, actor=access.actor(principal)):
        raise NotFound(f"scope {canonical} does not exist")


def _describe(
    services: Services, principal: Principal, paths: Sequence[str]
) -> tuple[ScopeOut, ...]:
    configs = services.store.scope_configs(paths)
    stats = services.store.scope_stats(paths, principal.view)
    return tuple(
        ScopeOut(
            path=path,
            declared=path in configs,
            config=configs.get(path, ScopeConfig()),
            stats=stat,
        )
        for path, stat in zip(paths, stats, strict=True)
    )
