"""Ports for scopes and registered callers."""

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
    """Scopes, their configuration and their content."""

    def put_scope(self, path: str, config: ScopeConfig, *, actor: Actor) -> None:
        """Declare a scope's configuration."""
        ...

    def scope_configs(self, paths: Sequence[str]) -> Mapping[str, ScopeConfig]:
        """Return the declared configuration of exactly these paths; undeclared paths are absent."""
        ...

    def list_scopes(self, view: View) -> tuple[str, ...]:
        """Return the visible scopes, as `visible_scopes` does, by path."""
        ...

    def delete_scope(self, path: str, *, actor: Actor, erase: bool = False) -> bool:
        """Retire exactly this path, its configuration and facts; return False when there was none.

        With `erase` the scope can never be adopted, and `erase_deleted` erases its facts.
        """
        ...

    def reset_scope(self, path: str, *, actor: Actor) -> bool:
        """Remove a scope's declaration but keep its facts; return False when there was none."""
        ...

    def adopt_scope(self, path: str, *, actor: Actor) -> AdoptionResult | None:
        """Merge the last retired scope of the path into the current one; None if there is none.

        A realm returns with every scope that was retired together with it.

        Raises:
            Conflict: the current scope has too many facts to be merged, or both have a run of one
                id.
        """
        ...

    def scope_stats(self, paths: Sequence[str], view: View) -> tuple[ScopeStats, ...]:
        """Count the content of scopes, in the order of the paths.

        Usage by observers outside the view does not count.
        """
        ...


class PrincipalStore(Protocol):
    """Registered callers."""

    def put_principal(self, principal: PrincipalIn, *, actor: Actor) -> None:
        """Register or replace a caller, by username. A changed `realm_uid` starts a new realm.

        Raises:
            Conflict: the realm's UID was replaced before.
        """
        ...

    def principal(self, username: str) -> PrincipalIn | None:
        """Return a registration."""
        ...

    def principal_of_cell(self, realm: str, formation: str, cell: str) -> PrincipalIn | None:
        """Return the registration whose address is that cell of a formation of the realm."""
        ...

    def principals(self) -> tuple[PrincipalIn, ...]:
        """Return all registrations, by username."""
        ...

    def delete_principal(self, username: str, *, actor: Actor) -> bool:
        """Delete a registration; return False when there was none."""
        ...
