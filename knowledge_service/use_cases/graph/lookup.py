"""Look entities up by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from knowledge_client.models import Fact
from knowledge_service.domain.access_control import PLATFORM, lineage, realm_of
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, NotFound

if TYPE_CHECKING:
    from knowledge_service.ports import Store

NAMESPACE, ENTITY, SCHEMA = "entity", "entity", "graph/1"


def find_all(store: Store, principal: Principal, names: Iterable[str]) -> Iterator[Fact]:
    """Yield the live entities of some names, each once; missing ones are left out."""
    for name in dict.fromkeys(names):
        entity = find(store, principal, name)
        if entity:
            yield entity


def find(store: Store, principal: Principal, name: str) -> Fact | None:
    """Return the live entity that a name means, or None.

    Raises:
        Conflict: several visible entities have the name, none of them on the caller's own path.
    """
    by_scope = _named(store, principal, name)
    nearest = next((by_scope[path] for path in lineage(principal.home) if path in by_scope), None)
    if nearest is None and len(by_scope) > 1:
        raise Conflict(
            f"{name!r} is the name of an entity in each of {', '.join(sorted(by_scope))};"
            " use an account whose home is in one of these realms"
        )
    return nearest or next(iter(by_scope.values()), None)


def is_taken(store: Store, principal: Principal, name: str, scope: str) -> bool:
    """Return whether an entity with a name is visible in the realm of a scope or above it."""
    taken = _named(store, principal, name)
    return any(realm_of(path) in (realm_of(scope), PLATFORM) for path in taken)


def _named(store: Store, principal: Principal, name: str) -> dict[str, Fact]:
    """Return the visible, live entities with a name, by scope."""
    facts = (
        store.fact(fact_id, principal.view)
        for _, fact_id in store.named(Name(NAMESPACE, name), principal.view)
    )
    return {
        fact.scope: fact
        for fact in facts
        if fact is not None and (fact.kind, fact.lifecycle) == (ENTITY, "live")
    }


def require(store: Store, principal: Principal, name: str) -> Fact:
    """Return the live entity that a name means.

    Raises:
        NotFound: it does not exist or is not visible.
        Conflict: several visible entities have the name.
    """
    entity = find(store, principal, name)
    if entity is None:
        raise NotFound(f"entity {name!r} does not exist or is not visible to you")
    return entity
