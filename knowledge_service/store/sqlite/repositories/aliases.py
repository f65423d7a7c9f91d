"""Looks up aliases of facts."""

from __future__ import annotations

from typing import Any

import apsw

from knowledge_client.models import Alias, NamedFact
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.ports import AliasListing
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base

_EVERYWHERE = """SELECT s.path, f.review, f.id FROM alias a JOIN scope s USING(scope_no)
  JOIN fact f ON f.fact_no = a.fact_no
  WHERE a.namespace = ? AND a.value = ? AND s.retired_at IS NULL ORDER BY s.path"""
_EVERYWHERE_SEEN = """SELECT s.path, f.review, f.id FROM json_each(?3) n CROSS JOIN alias a
  ON a.scope_no = n.value AND a.namespace = ?1 AND a.value = ?2
  JOIN scope s USING(scope_no) JOIN fact f ON f.fact_no = a.fact_no
  WHERE s.retired_at IS NULL ORDER BY s.path"""
_CROWDED = """SELECT EXISTS(SELECT 1 FROM alias INDEXED BY alias_name
  WHERE namespace = ? AND value = ? LIMIT 1 OFFSET ?)"""
_ALIASES_OF_FACT = """SELECT a.namespace, a.value FROM alias a JOIN fact f USING(fact_no)
  WHERE f.id = ? ORDER BY a.namespace, a.value"""
# Only the first `:limit` aliases of each scope are read, because a page needs no more.
_PAGE = """SELECT a.value, s.path, f.id FROM json_each(:scopes) c
  CROSS JOIN alias a ON a.scope_no = c.value AND a.namespace = :namespace
  JOIN scope s ON s.scope_no = a.scope_no JOIN fact f ON f.fact_no = a.fact_no
  WHERE a.value IN (SELECT x.value FROM alias x JOIN fact g ON g.fact_no = x.fact_no
    WHERE x.scope_no = c.value AND x.namespace = :namespace
    AND x.value >= :prefix AND x.value < :end AND x.value >= :after
    AND (x.value, s.path) > (:after, :path) AND g.lifecycle <> 'retracted'
    AND (:drafts OR g.review NOT IN ('draft', 'rejected')) ORDER BY x.value LIMIT :limit)
  ORDER BY a.value, s.path LIMIT :limit"""
# A prefix followed by this sorts after every value that begins with the prefix.
_LAST = "\U0010ffff" * 513


def of_fact(connection: apsw.Connection, fact_id: str) -> tuple[Alias, ...]:
    """Return a fact's aliases."""
    return tuple(
        Alias(namespace=namespace, value=value)
        for namespace, value in connection.execute(_ALIASES_OF_FACT, (fact_id,))
    )


def read_page(connection: apsw.Connection, listing: AliasListing) -> tuple[NamedFact, ...]:
    """Return a page of aliases."""
    after_value, path = listing.after or ("", "")
    bindings = {
        "scopes": json_list(sorted(base.visible_scopes(connection, listing.view, listing.scopes))),
        "namespace": listing.namespace,
        "prefix": listing.prefix,
        "end": listing.prefix + _LAST,
        "after": after_value,
        "path": path,
        "drafts": listing.view.drafts,
        "limit": listing.limit,
    }
    return tuple(
        NamedFact(namespace=listing.namespace, value=value, scope=scope, fact_id=fact_id)
        for value, scope, fact_id in connection.execute(_PAGE, bindings)
    )


def find(connection: apsw.Connection, name: Name, view: View) -> tuple[tuple[str, str], ...]:
    """Return (scope, fact id) of every visible fact with an alias."""
    scopes = base.scope_filter(view, base.visible_scopes(connection, view, None))
    key: tuple[Any, ...] = (name.namespace, name.value)
    if scopes.is_named(connection, _CROWDED, key):
        rows = connection.execute(_EVERYWHERE_SEEN, (*key, scopes.scopes))
    else:
        rows = connection.execute(_EVERYWHERE, key)
    return tuple(
        (str(path), str(fact_id))
        for path, review, fact_id in rows
        if view.can_read_fact(path, review)
    )
