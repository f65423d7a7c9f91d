"""Links between facts: create, delete and list them, and find the neighbours of a fact.

Both ends must be visible; an invisible end is refused like one that does not exist. A link is a
statement about the fact it starts from, so it needs the right to change that one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from knowledge_client.models import Fact, Linked, LinkIn, LinkPage, Neighborhood, ProblemViolation
from knowledge_service.domain import redaction
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Forbidden, InvalidBody, TooLarge
from knowledge_service.ports import NeighbourQuery, NewLink
from knowledge_service.use_cases import authorization, fact_queries, pagination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knowledge_service.ports import IdempotencyKey, Store

_RESERVED_TYPES = frozenset({"supersedes", "promoted_from"})
_MAX_DATA_BYTES = 8 * 1024


def create_link(
    store: Store, principal: Principal, body: LinkIn, idempotency_key: IdempotencyKey | None
) -> Linked:
    """Link two visible facts; a link from a fact to itself is ignored and reported.

    Raises:
        NotFound: an end does not exist or is not visible.
        Forbidden, ScopeReadOnly: the caller may not write in the scope of the first fact.
        InvalidBody, TooLarge: a reserved type, an end before the start, or too much data.
    """
    start, end = check_link(store, principal, body)
    if start.id == end.id:
        return Linked(status="ignored", reason=f"fact {start.id} is not linked to itself")
    return store.link(
        new_link(body, start.id, end.id),
        principal.view,
        actor=authorization.actor_of(principal),
        idempotency_key=idempotency_key,
    )


def check_link(store: Store, principal: Principal, body: LinkIn) -> tuple[Fact, Fact]:
    """Check a link without creating it, and return its ends.

    Raises:
        The errors of `create_link`.
    """
    start = fact_queries.get_visible_fact(store, principal, body.from_)
    end = fact_queries.get_visible_fact(store, principal, body.to)
    _authorize_link_write(store, principal, start, body.from_)
    validate_link(body)
    return start, end


def validate_link(body: LinkIn) -> None:
    """Check the type, the validity and the data of a link.

    Raises:
        InvalidBody, TooLarge: one of them is not permitted.
    """
    require_open_type(body.type)
    if body.valid_from and body.valid_until and body.valid_until <= body.valid_from:
        violation = ProblemViolation(path="valid_until", message="must be later than valid_from")
        raise InvalidBody("the link ends before it starts", (violation,))
    if body.data is not None:
        _validate_data(body.data)


def _validate_data(data: Any) -> None:
    try:
        size = len(json.dumps(data, allow_nan=False).encode())
    except ValueError as exc:
        message = "holds a number that is NaN or infinite, which JSON does not have"
        violation = ProblemViolation(path="data", message=message)
        raise InvalidBody("the data of the link is not JSON", (violation,)) from exc
    if size > _MAX_DATA_BYTES:
        raise TooLarge(f"data of a link may have {_MAX_DATA_BYTES} bytes")


def require_open_type(kind: str) -> None:
    """Check that callers may make and remove links of a type.

    Raises:
        InvalidBody: the type is one of the service's own.
    """
    if kind in _RESERVED_TYPES:
        raise _reserved_type_error(kind)


def new_link(body: LinkIn, start_id: str, end_id: str) -> NewLink:
    """Return a link between two facts, with secrets in its data masked."""
    return NewLink(
        from_id=start_id,
        to_id=end_id,
        type=body.type,
        weight=body.weight,
        data=redaction.mask_tree(body.data),
        valid_from=body.valid_from,
        valid_until=body.valid_until,
    )


def get_linkable_fact(store: Store, principal: Principal, reference: str) -> Fact:
    """Return a fact from which the caller may link.

    Raises:
        NotFound: it does not exist or is not visible.
        Forbidden, ScopeReadOnly: the caller may not write in its scope.
    """
    fact = fact_queries.get_visible_fact(store, principal, reference)
    _authorize_link_write(store, principal, fact, reference)
    return fact


def get_end(store: Store, principal: Principal, reference: str) -> Fact:
    """Return the fact at the end of a link.

    Raises:
        NotFound: it does not exist or is not visible.
    """
    return fact_queries.get_visible_fact(store, principal, reference)


def delete_link(store: Store, principal: Principal, from_: str, to: str, kind: str) -> None:
    """Delete a link, if it exists.

    Raises:
        NotFound: an end does not exist or is not visible.
        Forbidden, ScopeReadOnly: the caller may not write in the scope of the first fact.
        InvalidBody: the type is reserved.
    """
    start = fact_queries.get_visible_fact(store, principal, from_)
    end = fact_queries.get_visible_fact(store, principal, to)
    _authorize_link_write(store, principal, start, from_)
    require_open_type(kind)
    store.unlink(start.id, end.id, kind, actor=authorization.actor_of(principal))


def list_links(
    store: Store,
    principal: Principal,
    fact_id: str,
    *,
    types: Sequence[str],
    cursor: str | None,
    limit: int,
) -> LinkPage:
    """Return a page of a visible fact's links whose other ends are visible too.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    position = pagination.decode(cursor)
    fact = fact_queries.get_readable_fact(store, principal, fact_id)
    page = store.links(fact.id, principal.view, types=types, before_id=position, limit=limit)
    next_cursor = pagination.encode(page.cursor) if page.cursor else None
    return page.model_copy(update={"cursor": next_cursor})


def find_neighbors(
    store: Store,
    principal: Principal,
    fact_id: str,
    *,
    types: Sequence[str],
    depth: int,
    limit: int,
) -> Neighborhood:
    """Return the live facts up to `depth` links away from a visible one, the nearest first."""
    fact = fact_queries.get_readable_fact(store, principal, fact_id)
    return store.neighbors(NeighbourQuery(fact.id, depth, limit, tuple(types)), principal.view)


def _authorize_link_write(store: Store, principal: Principal, fact: Fact, reference: str) -> None:
    if not principal.has_verb("remember", fact.scope):
        raise Forbidden(f"{principal.name} may read fact {reference} but not link it to others")
    authorization.require_change(principal, fact, reference, "link")
    authorization.authorize_write(store, fact.scope, principal, "remember")


def _reserved_type_error(kind: str) -> InvalidBody:
    message = f"{kind!r} says what the service did; correct or promote the fact instead"
    return InvalidBody("the link's type is the service's own", (_type_violation(message),))


def _type_violation(message: str) -> ProblemViolation:
    return ProblemViolation(path="type", message=message)
