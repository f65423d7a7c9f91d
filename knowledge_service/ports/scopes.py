"""Scopes and the callers that live in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from knowledge_client.models import (
    AdoptionResult,
    PrincipalIn,
    ScopeConfig,
    ScopeStats,
)
from knowledge_service.domain.access_control import View
from knowledge_service.ports.queries import (
    Actor,
)


class ScopeStore(Protocol):
    """Scopes, their configuration and what they hold."""

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        """Declare a scope's configuration."""
        ...

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        """Return what was declared for exactly these paths; undeclared ones are absent."""
        ...

    def list_scopes(self, view: View) -> tuple[str, ...]:
        """Return the visible scopes by path, as `visible_scopes` does."""
        ...

    def delete_scope(self, path: str, *, actor: Actor, erase: bool = False) -> bool:
        """Retire exactly this path with its configuration and facts; False when there was none.

        With `erase` it can never be adopted, and `erase_deleted` erases its facts.
        """
        ...

    def reset_scope(self, path: str, *, actor: Actor) -> bool:
        """Take a scope's declaration back, its facts stay; False when there was none."""
        ...

    def adopt_scope(self, path: str, *, actor: Actor) -> AdoptionResult | None:
        """Join what the last retired scope of the path knew; None when there is none.

        A realm comes back with every scope that was retired together with it.

        Raises:
            Conflict: too much was learnt since to be moved.
        """
        ...

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        """Count, in the order of the paths; usage of observers outside the view does not count."""
        ...


class PrincipalStore(Protocol):
    """Registered callers."""

    def put_principal(self, principal: PrincipalIn, *, actor: Actor) -> None:
        """Register or replace, by username. Another `realm_uid` than before starts the realm anew.

        Raises:
            Conflict: the realm's UID is one that was replaced before.
        """
        ...

    def principal(self, username: str) -> PrincipalIn | None:
        """Return a registration."""
        ...

    def principals(self) -> tuple[PrincipalIn, ...]:
        """Return all registrations, by username."""
        ...

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        """Forget a registration; False when there was none."""
        ...
