"""Read facts: one by its id or alias, or a page of them.

A fact that the caller may not see is refused like one that does not exist.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from knowledge_client.base_model import UtcDatetime
from knowledge_client.models import FacetText, Fact, FactKind, FactPage, Tag
from knowledge_service.domain import aliases, facets
from knowledge_service.domain.access_control import View, lineage
from knowledge_service.domain.facets import Facet
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Conflict, InvalidBody, NotFound
from knowledge_service.ports import Listing
from knowledge_service.use_cases import arms, authorization, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import Store


class FactFilters(BaseModel):
    """The filters of a list of facts; each narrows it."""

    scope: str | None = None
    kind: FactKind | None = None
    tag: Tag | None = None
    lifecycle: Literal["live", "superseded", "retracted", "archived"] | None = None
    source: str | None = None
    review: Literal["none", "draft", "approved", "rejected"] | None = None
    valid_at: UtcDatetime | None = None
    known_at: UtcDatetime | None = None
    about: str | None = Field(
        default=None,
        max_length=1200,
        description="only facts about this fact (an id or alias), in the order of their positions",
    )
    schema_: str | None = Field(default=None, alias="schema", max_length=64)
    facet: list[FacetText] = Field(
        default=[],
        max_length=8,
        description="NAME=VALUE: only facts whose `data` has this value at this path, such as"
        " `applicability.projects=shop`; only together with `schema`",
    )
    subject: str | None = Field(default=None, max_length=512)
    contains: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="a part of the title, content or subject; case is ignored",
    )
    alias_namespace: str | None = Field(
        default=None, max_length=63, description="only facts with an alias in this namespace"
    )
    unlinked: bool = Field(
        default=False, description="only facts without a live link that you can see"
    )
    id_prefix: str | None = Field(
        default=None,
        pattern="^[0-9a-f-]{4,36}$",
        description="only facts whose id begins with this; not together with `about`",
    )
    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=500)


def list_facts(store: Store, principal: Principal, filters: FactFilters) -> FactPage:
    """Return a page of visible facts, newest first.

    Raises:
        InvalidBody: the cursor, the scope or a facet is malformed.
        ScopeForbidden: the named scope is out of reach.
    """
    scopes = authorization.authorize_read([filters.scope], principal) if filters.scope else None
    if arms.is_without_facts(store, principal):
        return FactPage(facts=())
    about = resolve_alias(store, principal, filters.about) if filters.about else None
    last = pagination.decode(filters.cursor)
    listing = Listing(
        view=principal.view,
        limit=filters.limit + 1,
        scopes=scopes,
        kind=filters.kind,
        tag=filters.tag,
        lifecycle=filters.lifecycle,
        source=filters.source,
        before_id=None if about else last or _id_behind(filters.id_prefix),
        after_position=_position_of(last) if about and last else None,
        review=filters.review,
        valid_at=filters.valid_at,
        known_at=filters.known_at,
        about=about,
        schema=filters.schema_,
        facets=parse_facets(filters.facet, filters.schema_),
        subject=filters.subject,
        contains=filters.contains,
        alias_namespace=filters.alias_namespace,
        is_unlinked=filters.unlinked,
    )
    key = _position_key if about else _id_key
    rows = store.list_facts(listing)
    if filters.id_prefix:  # the list is in the order of ids, so all of them are adjacent
        rows = tuple(fact for fact in rows if fact.id.startswith(filters.id_prefix))
    facts, cursor = pagination.split_page(rows, filters.limit, key)
    return FactPage(facts=facts, cursor=cursor)


def parse_facets(texts: Iterable[str], schema: str | None) -> tuple[Facet, ...]:
    """Parse the facets of a request.

    Raises:
        InvalidBody: a facet is malformed, or there is no schema.
    """
    try:
        parsed = tuple(map(facets.parse, texts))
    except ValueError as exc:
        raise InvalidBody(f"invalid facet: {exc}") from exc
    if parsed and schema is None:
        raise InvalidBody("a facet names a member of the data of one schema; add schema")
    return parsed


def _id_behind(prefix: str | None) -> str | None:
    """Return a text that sorts after all ids with the prefix, and before all greater ids."""
    return f"{prefix}~" if prefix else None


def _id_key(fact: Fact) -> str:
    return fact.id


def _position_key(fact: Fact) -> str:
    return f"{'' if fact.position is None else fact.position}/{fact.id}"


def _position_of(last: str) -> tuple[int | None, str]:
    """Return the position and id in a cursor of the list of facts about another fact.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    position, slash, fact_id = last.partition("/")
    if not slash or not re.fullmatch(r"(-?[0-9]{1,16})?", position):
        raise pagination.invalid_cursor()
    return (int(position) if position else None), fact_id


def get_visible_fact(
    store: Store, principal: Principal, reference: str, *, known_at: datetime | None = None
) -> Fact:
    """Return a fact that the caller may see, by its id or an alias (`alias:<namespace>:<value>`).

    With `known_at`, as it was known then. If several facts have the alias, the one in the nearest
    scope of the caller's own path is returned.

    Raises:
        NotFound: the fact does not exist or is not visible.
        Conflict: several facts have the alias, none of them on the caller's own path.
    """
    fact = _find_fact(store, principal, reference, principal.view, known_at)
    if fact is None:
        raise fact_not_found(reference)
    return fact


def get_readable_fact(
    store: Store, principal: Principal, reference: str, *, known_at: datetime | None = None
) -> Fact:
    """Return a fact like `get_visible_fact`, but none to a caller for a run without knowledge.

    Raises:
        NotFound: also for a caller that works for a run without knowledge.
    """
    arms.require_facts(store, principal)
    return get_visible_fact(store, principal, reference, known_at=known_at)


def get_changeable_fact(
    store: Store, principal: Principal, reference: str, *, drafts: bool = False
) -> Fact:
    """Return a fact that the caller may see, or one that it wrote and no longer sees.

    An agent sees no draft, but may correct or retract its own. With `drafts`, the drafts of others
    count as visible.

    Raises:
        NotFound, Conflict: as `get_visible_fact`.
    """
    view = dataclasses.replace(principal.view, drafts=True)
    fact = _find_fact(store, principal, reference, view, None)
    if fact is None:
        raise fact_not_found(reference)
    is_author = fact.source.actor == principal.name
    if not (drafts or is_author or principal.view.can_read_fact(fact.scope, fact.review)):
        raise fact_not_found(reference)
    return fact


def resolve_alias(store: Store, principal: Principal, reference: str) -> str:
    """Return the id of the fact that has an alias; any other reference is returned unchanged.

    Raises:
        Conflict: several facts have the alias, none of them on the caller's own path.
    """
    if not aliases.is_alias(reference):
        return reference
    return _id_of_alias(store, principal, reference, principal.view) or reference


def fact_not_found(reference: str) -> NotFound:
    """Return the refusal for a fact that does not exist or is not visible."""
    return NotFound(f"fact {reference} does not exist or is not visible to you")


def _find_fact(
    store: Store, principal: Principal, reference: str, view: View, known_at: datetime | None
) -> Fact | None:
    is_alias = aliases.is_alias(reference)
    fact_id = _id_of_alias(store, principal, reference, view) if is_alias else reference
    return store.fact(fact_id, view, known_at) if fact_id else None


def _id_of_alias(store: Store, principal: Principal, reference: str, view: View) -> str | None:
    alias = aliases.parse(reference)
    ids = dict(store.named(alias, view)) if alias else {}
    nearest = next((ids[path] for path in lineage(principal.home) if path in ids), None)
    if nearest or not ids:
        return nearest
    if len(ids) > 1:
        raise Conflict(
            f"{reference} is the name of a fact in each of {', '.join(sorted(ids))};"
            " give the id of the one you mean"
        )
    return next(iter(ids.values()))
