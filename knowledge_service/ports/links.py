"""Ports for links between facts, their provenance and their impact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from knowledge_client.models import FactProvenance, Impact, Linked, LinkPage, Neighborhood
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.ports.queries import Actor, IdempotencyKey


@dataclass(frozen=True)
class NewLink:
    """A link to be made between two facts, by their ids."""

    from_id: str
    to_id: str
    type: str
    weight: float | None = None
    data: Any = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True)
class NeighbourQuery:
    """Which neighbours to find: up to `depth` links away, over some types of links or all."""

    fact_id: str
    depth: int
    limit: int
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditReader:
    """Who asks for what names callers: the view, and the name that its own receipts carry."""

    view: View
    name: str

    def can_read_receipt(self, observer: str, principal: str) -> bool:
        """Tell whether a receipt is the reader's own, or of a scope that it was granted."""
        return self.is_own_receipt(observer, principal) or any(
            reach.covers(observer) for reach in self.view.scope_ranges
        )

    def is_own_receipt(self, observer: str, principal: str) -> bool:
        """Tell whether a receipt is the reader's own."""
        return principal == self.name and observer == self.view.home


class LinkStore(Protocol):
    """Links between facts, and other names of facts. Invisible ends are left out, uncounted."""

    def link(
        self,
        new: NewLink,
        view: View,
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Linked:
        """Link two facts; a live link of the type stays as it is.

        Raises:
            NotFound: an end is missing or not visible; the two are not told apart.
        """
        ...

    def unlink(self, from_id: str, to_id: str, kind: str, *, actor: Actor) -> bool:
        """Close a link; False when there was none."""
        ...

    def links(
        self, fact_id: str, view: View, *, types: Sequence[str], before_id: str | None, limit: int
    ) -> LinkPage:
        """Return links from and to a fact, closed ones too, newest first, older than `before`.

        The page's cursor is the last link's id.
        """
        ...

    def neighbors(self, query: NeighbourQuery, view: View) -> Neighborhood:
        """Return the live facts around one, by distance and then by age."""
        ...

    def named(self, name: Name, view: View) -> tuple[tuple[str, str], ...]:
        """Return (scope, fact id) of every visible fact with that name."""
        ...


class ProvenanceStore(Protocol):
    """Why a fact is there and what it has touched."""

    def why(self, fact_id: str, reader: AuditReader) -> FactProvenance | None:
        """Return where a visible fact comes from."""
        ...

    def impact(self, fact_id: str, reader: AuditReader, *, limit: int) -> Impact | None:
        """Return what a visible fact has touched; at most `limit` recalls, the newest first."""
        ...
