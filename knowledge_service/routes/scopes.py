"""Scopes: declared, read, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from knowledge_client.models import AdoptionResult, ScopeConfig, ScopeOut, ScopePage
from knowledge_service.domain.access_control import Principal, realm_of
from knowledge_service.errors import Forbidden, NotFound
from knowledge_service.routes import pagination
from knowledge_service.routes.dependencies import CallerDep, Services, ServicesDep
from knowledge_service.routes.endpoint import Endpoint
from knowledge_service.use_cases import authorization

router = APIRouter(prefix="/v1", tags=["scopes"], route_class=Endpoint)


@router.get("/scopes")
def list_scopes(
    services: ServicesDep,
    principal: CallerDep,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> ScopePage:
    """List the visible scopes that exist, declared or only written to, by path."""
    after = pagination.unseal(cursor) or ""
    paths = [path for path in services.store.list_scopes(principal.view) if path > after]
    page = paths[:limit]
    return ScopePage(
        scopes=_describe(services, principal, page),
        cursor=pagination.seal(page[-1]) if len(paths) > limit else None,
    )


@router.get("/scopes/{path:path}")
def get_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Read a scope; one that nobody declared has the defaults."""
    paths = authorization.readable([path], principal)
    return _describe(services, principal, paths)[0]


@router.post("/scopes/{path:path}:reset")
def reset_scope(path: str, services: ServicesDep, principal: CallerDep) -> ScopeOut:
    """Take a scope's settings back to the defaults; its facts stay. Repeating it is harmless."""
    canonical = authorization.path_of(path, principal)
    authorization.require(principal, "admin", canonical)
    services.store.reset_scope(canonical, actor=authorization.actor(principal))
    return _describe(services, principal, [canonical])[0]


@router.post("/scopes/{path:path}:adopt")
def adopt_scope(path: str, services: ServicesDep, principal: CallerDep) -> AdoptionResult:
    """Join what the last scope of the same path knew, as after a namespace was made again."""
    canonical = authorization.path_of(path, principal)
    authorization.require(principal, "admin", canonical)
    if canonical == realm_of(canonical) and not principal.administers_all_below(canonical):
        raise Forbidden(f"{principal.name} administers {canonical} but not all below it")
    found = services.store.adopt_scope(canonical, actor=authorization.actor(principal))
    if found is None:
        raise NotFound(f"scope {canonical} has no predecessor to adopt")
    return found


@router.put("/scopes/{path:path}")
def put_scope(
    path: str, body: ScopeConfig, services: ServicesDep, principal: CallerDep
) -> ScopeOut:
    """Declare how knowledge behaves in a scope."""
    canonical = authorization.path_of(path, principal)
    authorization.require(principal, "admin", canonical)
    services.store.put_scope(canonical, body, actor=authorization.actor(principal))
    return _describe(services, principal, [canonical])[0]


@router.delete("/scopes/{path:path}", status_code=204)
def delete_scope(
    path: str, services: ServicesDep, principal: CallerDep, *, erase: bool = False
) -> None:
    """Retire exactly that scope with its configuration and facts; those below it stay.

    It is no longer served, and a scope of the same path can adopt it. With `erase` it
    cannot: the text of its facts and of their promoted copies is deleted for good, as by `:erase`,
    beside other writes.
    """
    canonical = authorization.path_of(path, principal)
    authorization.require(principal, "admin", canonical)
    actor = authorization.actor(principal)
    if not services.store.delete_scope(canonical, actor=actor, erase=erase):
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
