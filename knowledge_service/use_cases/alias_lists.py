"""List the aliases of a namespace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from knowledge_client.models import AliasPage, NamedFact
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import AliasListing
from knowledge_service.use_cases import arms, authorization, pagination

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def list_aliases(  # noqa: PLR0913 (one argument per filter)
    store: Store,
    principal: Principal,
    *,
    namespace: str,
    prefix: str,
    scope: str | None,
    cursor: str | None,
    limit: int,
) -> AliasPage:
    """Return a page of visible aliases that begin with a prefix, in the order of their values.

    Raises:
        InvalidBody: the cursor or the scope is malformed.
        ScopeForbidden: the named scope is out of reach.
    """
    scopes = authorization.authorize_read([scope], principal) if scope else None
    if arms.is_without_facts(store, principal):
        return AliasPage(aliases=())
    start_position = _position_of(pagination.decode(cursor))
    listing = AliasListing(principal.view, namespace, limit + 1, prefix, scopes, start_position)
    aliases, next_cursor = pagination.split_page(store.list_aliases(listing), limit, _key)
    return AliasPage(aliases=aliases, cursor=next_cursor)


def _key(alias: NamedFact) -> str:
    return json.dumps([alias.value, alias.scope])


def _position_of(last: str | None) -> tuple[str, str] | None:
    """Return the (value, scope) that a cursor names.

    Raises:
        InvalidBody: the cursor is malformed.
    """
    if last is None:
        return None
    try:
        value, scope = json.loads(last)
        f"{value}{scope}".encode()  # a lone surrogate cannot be stored
    except (ValueError, TypeError, RecursionError) as exc:
        raise pagination.invalid_cursor() from exc
    if not (isinstance(value, str) and isinstance(scope, str)):
        raise pagination.invalid_cursor()
    return value, scope
