"""Scopes: declare, list, read, reset, adopt and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_client.models import AdoptionResult, ScopeConfig, ScopeOut, ScopePage
from knowledge_service.domain.access_control import realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden, NotFound
from knowledge_service.use_cases import authorization, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def list_scopes(store: Store, principal: Principal, *, cursor: str | None, limit: int) -> ScopePage:
    """Return a page of the visible scopes that exist, by path.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    last_path = pagination.decode(cursor) or ""
    paths = [path for path in store.list_scopes(principal.view) if path > last_path]
    page, next_cursor = pagination.split_page(paths, limit, str)
    return ScopePage(scopes=_describe(store, principal, page), cursor=next_cursor)


def get_scope(store: Store, principal: Principal, path: str) -> ScopeOut:
    """Return a scope; an undeclared one has the defaults.

    Raises:
        ScopeForbidden: the scope is out of reach.
    """
    return _describe(store, principal, authorization.authorize_read([path], principal))[0]


def put_scope(store: Store, principal: Principal, path: str, config: ScopeConfig) -> ScopeOut:
    """Declare how knowledge behaves in a scope.

    Raises:
        ScopeForbidden, Forbidden: the caller does not administer the scope.
    """
    canonical = _administered_path(principal, path)
    store.put_scope(canonical, config, actor=authorization.actor_of(principal))
    return _describe(store, principal, [canonical])[0]


def reset_scope(store: Store, principal: Principal, path: str) -> ScopeOut:
    """Reset the settings of a scope to the defaults; its facts stay.

    Raises:
        ScopeForbidden, Forbidden: the caller does not administer the scope.
    """
    canonical = _administered_path(principal, path)
    store.reset_scope(canonical, actor=authorization.actor_of(principal))
    return _describe(store, principal, [canonical])[0]


def adopt_scope(store: Store, principal: Principal, path: str) -> AdoptionResult:
    """Take over the knowledge of the deleted scope that last had this path.

    Raises:
        ScopeForbidden, Forbidden: the caller does not administer the scope, or, for a realm, all
            scopes below it.
        NotFound: no deleted scope had this path.
    """
    canonical = _administered_path(principal, path)
    if canonical == realm_of(canonical) and not principal.administers_all_below(canonical):
        raise Forbidden(f"{principal.name} administers {canonical} but not all below it")
    adopted = store.adopt_scope(canonical, actor=authorization.actor_of(principal))
    if adopted is None:
        raise NotFound(f"scope {canonical} has no predecessor to adopt")
    return adopted


def delete_scope(store: Store, principal: Principal, path: str, *, erase: bool) -> None:
    """Retire a scope with its configuration and facts; with `erase` it cannot be adopted.

    Raises:
        ScopeForbidden, Forbidden: the caller does not administer the scope.
        NotFound: the scope does not exist.
    """
    canonical = _administered_path(principal, path)
    actor = authorization.actor_of(principal)
    if not store.delete_scope(canonical, actor=actor, erase=erase):
        raise NotFound(f"scope {canonical} does not exist")


def _administered_path(principal: Principal, path: str) -> str:
    canonical = authorization.canonical_path(path, principal)
    authorization.require_verb(principal, "admin", canonical)
    return canonical


def _describe(store: Store, principal: Principal, paths: Sequence[str]) -> tuple[ScopeOut, ...]:
    configs = store.scope_configs(paths)
    stats = store.scope_stats(paths, principal.view)
    return tuple(
        ScopeOut(
            path=path,
            declared=path in configs,
            config=configs.get(path, ScopeConfig()),
            stats=stat,
        )
        for path, stat in zip(paths, stats, strict=True)
    )
