"""Ports for links between facts, their provenance and their impact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from knowledge_client.models import (
    FactProvenance,
    Impact,
    Link,
    Linked,
    LinkPage,
    NamedFact,
    Neighborhood,
)
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.ports.queries import Actor, IdempotencyKey


@dataclass(frozen=True)
class NewLink:
    """A link to create between two facts, which are given by id."""

    from_id: str
    to_id: str
    type: str
    weight: float | None = None
    data: Any = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True)
class NeighbourQuery:
    """A query for neighbours up to `depth` links away; an empty `types` means all types."""

    fact_id: str
    depth: int
    limit: int
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class AliasListing:
    """A query for a page of the aliases in a namespace that begin with `prefix`.

    `after` is the (value, scope) of the last alias of the previous page; `scopes` None stands for
    all visible scopes.
    """

    view: View
    namespace: str
    limit: int
    prefix: str = ""
    scopes: tuple[str, ...] | None = None
    after: tuple[str, str] | None = None


@dataclass(frozen=True)
class AuditReader:
    """The reader of a result that names callers: its view, and its name in receipts."""

    view: View
    name: str

    def can_read_receipt(self, observer: str, principal: str) -> bool:
        """Return whether the reader may see a receipt: its own, or one of a granted scope."""
        return self.is_own_receipt(observer, principal) or any(
            reach.covers(observer) for reach in self.view.scope_ranges
        )

    def is_own_receipt(self, observer: str, principal: str) -> bool:
        """Return whether a receipt is the reader's own."""
        return principal == self.name and observer == self.view.home


class LinkStore(Protocol):
    """Links between facts, and aliases of facts.

    Links with an invisible end are neither returned nor counted.
    """

    def link(
        self,
        new: NewLink,
        view: View,
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Linked:
        """Link two facts; a live link of the same type is not changed.

        Raises:
            NotFound: an end is missing or not visible; the error does not distinguish the two.
        """
        ...

    def unlink(self, from_id: str, to_id: str, kind: str, *, actor: Actor) -> bool:
        """Close a link; return False when there was none."""
        ...

    def links(
        self, fact_id: str, view: View, *, types: Sequence[str], before_id: str | None, limit: int
    ) -> LinkPage:
        """Return links from and to a fact, including closed ones, newest first.

        Only links older than `before_id` are returned. The id of the last link is the page's
        cursor.
        """
        ...

    def links_among(self, fact_ids: Sequence[str], view: View) -> tuple[Link, ...]:
        """Return the live links between some facts, oldest first; other links are not read."""
        ...

    def links_from(
        self, fact_ids: Sequence[str], view: View, *, to_kind: str, limit: int
    ) -> tuple[Link, ...]:
        """Return the live links from some visible facts to live facts of a kind, oldest first."""
        ...

    def neighbors(self, query: NeighbourQuery, view: View) -> Neighborhood:
        """Return the live facts around a fact, ordered by distance, then by age."""
        ...

    def list_aliases(self, listing: AliasListing) -> tuple[NamedFact, ...]:
        """Return a page of visible aliases, ordered by value, then by scope.

        Aliases of retracted facts are left out: another fact may take them.
        """
        ...

    def named(self, name: Name, view: View) -> tuple[tuple[str, str], ...]:
        """Return (scope, fact id) of every visible fact with this alias."""
        ...


class ProvenanceStore(Protocol):
    """The provenance of a fact and its impact."""

    def why(self, fact_id: str, reader: AuditReader) -> FactProvenance | None:
        """Return the provenance of a visible fact."""
        ...

    def impact(self, fact_id: str, reader: AuditReader, *, limit: int) -> Impact | None:
        """Return the impact of a visible fact, with at most `limit` recalls, newest first."""
        ...
