"""What a store is asked with and what it answers beside the wire models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from knowledge_client.models import (
    Fact,
    Receipt,
)
from knowledge_service.domain.filtering import Filters
from knowledge_service.domain.visibility import PrincipalType, View


@dataclass(frozen=True)
class Actor:
    """Who writes: the name goes into sources and the event log."""

    name: str
    type: PrincipalType


@dataclass(frozen=True)
class Once:
    """An Idempotency-Key: a repeat with the same body gets the first answer and writes nothing."""

    principal: str
    key: str
    body_hash: str


@dataclass(frozen=True)
class Search:
    """A ranked retrieval in the scopes that are both named and visible.

    None names all visible ones.
    """

    view: View
    query: str
    limit: int
    scopes: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True)
class Hit:
    """A fact with its score and the parts that it is the sum of."""

    fact: Fact
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Listing:
    """A page of facts to be listed: newest first, only older than the fact `before`."""

    view: View
    limit: int
    scopes: tuple[str, ...] | None = None
    kind: str | None = None
    tag: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class RunListing:
    """A page of runs to be listed.

    The one opened last first, only opened before the run `before`.
    """

    view: View
    limit: int
    namespace: str | None = None
    blueprint: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class NewReceipt:
    """A receipt to be kept, and the home scope of whom the recall was for."""

    receipt: Receipt
    observer: str
