"""Links between facts, and the neighbourhood of a fact."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel
from knowledge_client.models.facts import Fact

LINK_TYPE = r"^[a-z][a-z0-9_.-]{0,63}$"


class LinkIn(WireModel):
    """A link to make. Each end is a fact's id or alias; the type is open (`mentions`, `contains`).

    `supersedes` and `promoted_from` record actions of the service, so only the service creates
    them.
    """

    from_: str = Field(alias="from", min_length=1, max_length=1200)
    to: str = Field(min_length=1, max_length=1200)
    type: str = Field(default="related", pattern=LINK_TYPE)
    weight: float | None = Field(default=None, ge=0, le=1_000_000)
    data: Any = None
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None


class Link(WireModel):
    """A link between two facts, by their ids; `closed_at` is when it was removed."""

    id: str
    from_: str = Field(alias="from")
    to: str
    type: str
    weight: float | None = None
    data: Any = None
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None
    recorded_at: UtcDatetime
    closed_at: UtcDatetime | None = None
    actor: str


class Linked(WireModel):
    """The result for a link: `created`, `exists` when it was live, `ignored` for a self-link."""

    status: Literal["created", "exists", "ignored"]
    link: Link | None = None
    reason: str | None = None


class LinkPage(WireModel):
    """The links from and to one fact, newest first. `cursor` is absent on the last page."""

    links: tuple[Link, ...]
    cursor: str | None = None


class Neighbor(WireModel):
    """A fact and how many links away it is."""

    depth: int
    fact: Fact


class Neighborhood(WireModel):
    """The neighbours of a fact, nearest first, and the links among all of these facts.

    `truncated` means that there are more neighbours than the requested number.
    """

    facts: tuple[Neighbor, ...]
    links: tuple[Link, ...]
    truncated: bool = False
