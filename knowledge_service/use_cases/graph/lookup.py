"""Look up entities by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from knowledge_client.models import Fact
from knowledge_service.domain.access_control import PLATFORM, lineage, realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, NotFound

if TYPE_CHECKING:
    from knowledge_service.ports import Store

NAMESPACE, ENTITY, SCHEMA = "entity", "entity", "graph/1"


def find_all(store: Store, principal: Principal, names: Iterable[str]) -> list[Fact]:
    """Return the live entities with these names, each once; missing ones are left out.

    Raises:
        Conflict: several visible entities have a name, none of them on the caller's own path.
    """
    by_name = _named(store, principal, names)
    entities = (_nearest(principal, name, by_scope) for name, by_scope in by_name.items())
    return [entity for entity in entities if entity is not None]


def find(store: Store, principal: Principal, name: str) -> Fact | None:
    """Return the live entity that a name refers to, or None.

    Raises:
        Conflict: several visible entities have the name, none of them on the caller's own path.
    """
    return next(iter(find_all(store, principal, (name,))), None)


def taken_names(
    store: Store, principal: Principal, names: Iterable[str], scope: str
) -> frozenset[str]:
    """Return the names of entities that are visible in the realm of a scope or above it."""
    return frozenset(
        name
        for name, by_scope in _named(store, principal, names).items()
        if any(realm_of(path) in (realm_of(scope), PLATFORM) for path in by_scope)
    )


def _nearest(principal: Principal, name: str, by_scope: Mapping[str, Fact]) -> Fact | None:
    nearest = next((by_scope[path] for path in lineage(principal.home) if path in by_scope), None)
    if nearest is None and len(by_scope) > 1:
        raise Conflict(
            f"{name!r} is the name of an entity in each of {', '.join(sorted(by_scope))};"
            " use an account whose home is in one of these realms"
        )
    return nearest or next(iter(by_scope.values()), None)


def _named(store: Store, principal: Principal, names: Iterable[str]) -> dict[str, dict[str, Fact]]:
    """Return the visible, live entities with some names: by name, then by scope."""
    by_name: dict[str, dict[str, Fact]] = {name: {} for name in names}
    for name, fact in store.facts_named(NAMESPACE, tuple(by_name), principal.view):
        if (fact.kind, fact.lifecycle) == (ENTITY, "live"):
            by_name[name][fact.scope] = fact
    return by_name


def require(store: Store, principal: Principal, name: str) -> Fact:
    """Return the live entity that a name refers to.

    Raises:
        NotFound: it does not exist or is not visible.
        Conflict: several visible entities have the name.
    """
    entity = find(store, principal, name)
    if entity is None:
        raise NotFound(f"entity {name!r} does not exist or is not visible to you")
    return entity
