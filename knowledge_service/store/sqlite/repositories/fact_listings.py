"""Reads pages of facts, facts about others, and facts by name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import apsw

from kais import facts as kais_facts
from knowledge_client.models import Fact
from knowledge_service.domain import facets
from knowledge_service.domain import facts as domain
from knowledge_service.domain.access_control import View
from knowledge_service.event_log import times
from knowledge_service.ports import Listing
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.projections import facet_index, trigram_index
from knowledge_service.store.sqlite.repositories import base, fact_rows

# Sorts after every position (`SafeInt`). The index has the same expression.
_NO_POSITION = 1 << 60
_POSITION = f"coalesce(f.position, {_NO_POSITION})"
# With more visible scopes, facts are read first, and invisible ones are dropped.
_MANY_SCOPES = 64
# The candidates of a search are compared in batches, which double in size up to this.
_MAX_PORTION = 512

_IN_SCOPES = "f.scope_no IN (SELECT value FROM json_each(:scopes))"
_ALWAYS = f"""(:kind IS NULL OR f.kind = :kind) AND (:source IS NULL OR f.source_type = :source)
  AND (:before_id IS NULL OR f.id < :before_id)
  AND (:drafts OR f.review NOT IN {fact_rows.UNREVIEWED})"""
_NOW = f"""{_ALWAYS}
  AND (:lifecycle IS NULL OR f.lifecycle = :lifecycle) AND (:review IS NULL OR f.review = :review)
  AND (:valid_at IS NULL OR coalesce(f.valid_from, f.recorded_at) <= :valid_at)
  AND (:valid_at IS NULL OR f.valid_until IS NULL OR :valid_at < f.valid_until)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM fact_tag t
    WHERE t.scope_no = f.scope_no AND t.tag = :tag AND t.fact_no = f.fact_no))"""
_THEN = f"""{fact_rows.select_as_of(":known_at")} WHERE {_IN_SCOPES} AND {_ALWAYS}
  AND f.recorded_at <= :known_at"""
_HELD_THEN = f"""(:drafts OR review NOT IN {fact_rows.UNREVIEWED})
  AND (:lifecycle IS NULL OR lifecycle = :lifecycle) AND (:review IS NULL OR review = :review)
  AND (:valid_at IS NULL OR coalesce(valid_from, recorded_at) <= :valid_at)
  AND (:valid_at IS NULL OR valid_until IS NULL OR :valid_at < valid_until)"""
_ALL = f"{fact_rows.SELECT} WHERE {_IN_SCOPES} AND {_NOW}"
# Only the newest of each scope: an index orders them, and no other rows are read.
_NEWEST = f"""{fact_rows.SELECT_COLUMNS} FROM json_each(:scopes) c CROSS JOIN fact f
  JOIN scope s ON s.scope_no = f.scope_no WHERE f.fact_no IN (
    SELECT f.fact_no FROM fact f WHERE f.scope_no = c.value AND {_NOW}%s
    ORDER BY f.id DESC LIMIT :limit)"""
# The literals let SQLite use the partial index of entities.
_ENTITIES = " AND f.kind = 'entity' AND f.lifecycle = 'live'"
_ABOUT_ONE = f"""{fact_rows.SELECT_COLUMNS} FROM fact f INDEXED BY fact_about
  JOIN scope s USING(scope_no) WHERE +{_IN_SCOPES} AND {_NOW}"""
# Each condition is added only if a listing has it, so that SQLite can choose its index.
_BY_COLUMN = {
    "schema": " AND f.schema = :schema",
    "subject": " AND f.subject = :subject",
    "about": " AND f.about IN (SELECT value FROM json_each(:about))",
    "alias_namespace": """ AND EXISTS (SELECT 1 FROM alias a
      WHERE a.fact_no = f.fact_no AND a.namespace = :alias_namespace)""",
}
# LIKE ignores the case of ASCII letters only, so other texts are compared in Python. LIKE stops at
# a NUL, so `instr` also searches texts that may contain one.
_CONTAINS = " AND ({})".format(
    " OR ".join(
        f"""{column} LIKE :pattern ESCAPE '\\'
  OR (length({column}) <> length(CAST({column} AS BLOB)) AND instr(lower({column}), :folded))"""
        for column in ("f.content", "f.title", "f.subject")
    )
)
_LIKE_SIGNS, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"
# A link to a fact that the reader may not see counts as none, so that it is not revealed.
_UNLINKED = f""" AND NOT EXISTS (SELECT 1 FROM link l JOIN fact o
    ON o.fact_no = CASE l.from_no WHEN f.fact_no THEN l.to_no ELSE l.from_no END
    WHERE l.closed_at IS NULL AND f.fact_no IN (l.from_no, l.to_no)
    AND l.id IN (SELECT x.id FROM link x WHERE x.from_no = f.fact_no
      UNION ALL SELECT x.id FROM link x WHERE x.to_no = f.fact_no)
    AND o.scope_no IN (SELECT value FROM json_each(:visible))
    AND (:drafts OR o.review NOT IN {fact_rows.UNREVIEWED}))"""
_AFTER_POSITION = f" AND ({_POSITION}, f.id) > (:position, :id)"
_BY_POSITION = f" ORDER BY coalesce(position, {_NO_POSITION}), id"
_NEWEST_FIRST = " ORDER BY id DESC"
_CANDIDATES = f"""{fact_rows.SELECT_COLUMNS} FROM json_each(:numbers) n
  CROSS JOIN fact f ON f.fact_no = n.value JOIN scope s USING(scope_no) WHERE {_NOW}"""
_NUMBER = "SELECT fact_no FROM fact WHERE id = ?"
_VERSIONS = """WITH r(root) AS (SELECT coalesce(root, id) FROM fact WHERE id = ?)
  SELECT root FROM r UNION SELECT f.id FROM r JOIN fact f USING(root)"""
_VERSIONS_OF_ALL = """WITH fact_of(id, root) AS (SELECT f.id, coalesce(f.root, f.id)
    FROM json_each(:ids) j CROSS JOIN fact f ON f.id = j.value),
  version(of, id) AS (SELECT id, root FROM fact_of
    UNION SELECT o.id, f.id FROM fact_of o CROSS JOIN fact f ON f.root = o.root)"""
_CURRENT = f"""{_VERSIONS_OF_ALL} {fact_rows.SELECT_COLUMNS}, v.of FROM version v
  CROSS JOIN fact f ON f.id = v.id JOIN scope s USING(scope_no)
  WHERE f.lifecycle = 'live' AND s.retired_at IS NULL"""
_ABOUT_SEVERAL = f"""{_VERSIONS_OF_ALL} {fact_rows.SELECT_COLUMNS}, v.of FROM version v
  CROSS JOIN json_each(:scopes) c CROSS JOIN fact f JOIN scope s ON s.scope_no = f.scope_no
  WHERE f.fact_no IN (SELECT f.fact_no FROM fact f INDEXED BY fact_about
    WHERE f.about = v.id AND f.scope_no = c.value AND f.kind = :kind AND f.lifecycle = 'live'
    AND (:drafts OR f.review NOT IN {fact_rows.UNREVIEWED}) ORDER BY {_POSITION}, f.id LIMIT :limit)
  ORDER BY v.of, {_POSITION}, f.id"""
_ABOUT_IN_MANY_SCOPES = f"""{_VERSIONS_OF_ALL} {fact_rows.SELECT_COLUMNS}, v.of FROM version v
  CROSS JOIN fact f INDEXED BY fact_about ON f.about = v.id JOIN scope s ON s.scope_no = f.scope_no
  WHERE +{_IN_SCOPES} AND f.kind = :kind AND f.lifecycle = 'live'
  AND (:drafts OR f.review NOT IN {fact_rows.UNREVIEWED}) ORDER BY v.of, {_POSITION}, f.id"""
_BY_ID = f"""{fact_rows.SELECT_COLUMNS} FROM json_each(?3) c
  CROSS JOIN alias a ON a.scope_no = c.value AND a.namespace = ?1 AND a.value = ?2
  CROSS JOIN fact f ON f.fact_no = a.fact_no JOIN scope s ON s.scope_no = f.scope_no"""
_NAMED_IN_MANY_SCOPES = f"""{fact_rows.SELECT_COLUMNS} FROM alias a INDEXED BY alias_name
  CROSS JOIN fact f ON f.fact_no = a.fact_no JOIN scope s ON s.scope_no = f.scope_no
  WHERE a.namespace = ?1 AND a.value = ?2
  AND +a.scope_no IN (SELECT value FROM json_each(?3))"""


def read_page(connection: apsw.Connection, listing: Listing) -> tuple[Fact, ...]:
    """Return a page of facts."""
    scopes = base.visible_scopes(connection, listing.view, listing.scopes)
    bindings = _bindings(connection, listing, scopes)
    numbers = _candidates(connection, listing, scopes)
    if numbers is not None:
        matches = _search(connection, listing, numbers, bindings)
    else:
        matches = fact_rows.facts(connection, _statement(listing), bindings)
    matching = (fact for fact in matches if _matches(fact, listing))
    return tuple(islice(matching, listing.limit))


def current_versions(
    connection: apsw.Connection, fact_ids: Sequence[str], view: View
) -> dict[str, Fact]:
    """Return the visible live version of each fact that has one."""
    rows: Any = connection.execute(_CURRENT, {"ids": json_list(list(fact_ids))})
    versions = {row[-1]: fact_rows.fact(row) for row in rows}
    return {
        key: fact for key, fact in versions.items() if view.can_read_fact(fact.scope, fact.review)
    }


def about_several(
    connection: apsw.Connection, fact_ids: Sequence[str], view: View, *, kind: str, limit: int
) -> dict[str, tuple[Fact, ...]]:
    """Return the live facts of a kind about each of some facts, in order, at most `limit`."""
    scopes = base.visible_scopes(connection, view, None)
    bindings = {
        "ids": json_list(list(fact_ids)),
        "scopes": json_list(sorted(scopes)),
        "kind": kind,
        "drafts": view.drafts,
        "limit": limit,
    }
    is_many = len(scopes) > _MANY_SCOPES
    statement = _ABOUT_IN_MANY_SCOPES if is_many else _ABOUT_SEVERAL
    rows: Any = connection.execute(statement, bindings)
    return {
        fact_id: tuple(fact_rows.fact(row) for row in islice(of_fact, limit))
        for fact_id, of_fact in itertools.groupby(rows, key=lambda row: row[-1])
    }


def named(
    connection: apsw.Connection, namespace: str, values: Iterable[str], view: View
) -> Iterator[tuple[str, Fact]]:
    """Yield (value, fact) of every visible fact with one of some aliases."""
    scopes = base.visible_scopes(connection, view, None)
    statement = _NAMED_IN_MANY_SCOPES if len(scopes) > _MANY_SCOPES else _BY_ID
    scopes_json = json_list(sorted(scopes))
    for value in values:
        for fact in fact_rows.facts(connection, statement, (namespace, value, scopes_json)):
            if view.can_read_fact(fact.scope, fact.review):
                yield value, fact


def _statement(listing: Listing) -> str:
    filters = "".join(sql for name, sql in _BY_COLUMN.items() if getattr(listing, name) is not None)
    if listing.contains is not None and not _is_compared_here(listing.contains):
        filters += _CONTAINS
    if listing.is_unlinked:
        filters += _UNLINKED
    if listing.after_position is not None:
        filters += _AFTER_POSITION
    order = _NEWEST_FIRST if listing.about is None else _BY_POSITION
    limit = "" if _is_filtered_here(listing) else " LIMIT :limit"
    if listing.known_at is not None:
        return f"SELECT * FROM ({_THEN}{filters}) WHERE {_HELD_THEN}{order}{limit}"
    if listing.about is not None:
        return f"{_ABOUT_ONE}{filters}{order}{limit}"
    if not limit:
        return f"{_ALL}{filters}{order}"
    if (listing.kind, listing.lifecycle) == ("entity", "live"):
        filters += _ENTITIES
    return f"{_NEWEST % filters} ORDER BY f.id DESC{limit}"


def _bindings(
    connection: apsw.Connection, listing: Listing, scopes: Collection[int]
) -> dict[str, Any]:
    visible = base.visible_scopes(connection, listing.view, None) if listing.is_unlinked else {}
    position, fact_id = listing.after_position or (None, None)
    return {
        "scopes": json_list(sorted(scopes)),
        "kind": listing.kind,
        "source": listing.source,
        "before_id": listing.before_id,
        "lifecycle": listing.lifecycle,
        "review": listing.review,
        "valid_at": times.to_us(listing.valid_at),
        "known_at": times.to_us(listing.known_at),
        "drafts": listing.view.drafts,
        "tag": kais_facts.normalize_tag(listing.tag) if listing.tag else None,
        "schema": listing.schema,
        "subject": listing.subject,
        "about": json_list(_versions(connection, listing.about) if listing.about else []),
        "alias_namespace": listing.alias_namespace,
        "pattern": f"%{_LIKE_SIGNS.sub(_ESCAPED, listing.contains or '')}%",
        "visible": json_list(sorted(visible)),
        "folded": (listing.contains or "").lower(),
        "position": _NO_POSITION if position is None else position,
        "id": fact_id,
        "limit": listing.limit,
    }


def _versions(connection: apsw.Connection, fact_id: str) -> list[str]:
    """Return the ids of all versions of a fact; of an unknown one, its own."""
    ids = {str(version) for (version,) in connection.execute(_VERSIONS, (fact_id,))}
    return sorted(ids | {fact_id})


def _has_trigrams(listing: Listing) -> bool:
    """Return whether the index of trigrams has the facts of a listing."""
    return (
        listing.contains is not None
        and listing.kind in trigram_index.KINDS
        and listing.about is None
        and listing.known_at is None
    )


def _has_facet_index(listing: Listing) -> bool:
    """Return whether the index of facets has the facts of a listing."""
    return bool(listing.facets and listing.schema) and not (listing.about or listing.known_at)


def _candidates(
    connection: apsw.Connection, listing: Listing, scopes: Collection[int]
) -> Iterator[int] | None:
    """Return the candidates for a listing from an index, newest first; None without an index."""
    before_no = None
    if listing.before_id is not None:
        rows: Any = connection.execute(_NUMBER, (listing.before_id,)).fetchall()
        before_no = rows[0][0] if rows else None
    if _has_trigrams(listing):
        return trigram_index.candidates(
            connection, scopes, str(listing.kind), str(listing.contains), before_no
        )
    if _has_facet_index(listing):
        return facet_index.candidates(
            connection, scopes, str(listing.schema), listing.facets, before_no
        )
    return None


def _search(
    connection: apsw.Connection,
    listing: Listing,
    numbers: Iterator[int],
    bindings: dict[str, Any],
) -> Iterator[Fact]:
    """Yield the candidates that satisfy the statement, newest first."""
    filters = "".join(sql for name, sql in _BY_COLUMN.items() if getattr(listing, name) is not None)
    if listing.contains is not None and not _is_compared_here(listing.contains):
        filters += _CONTAINS
    if listing.is_unlinked:
        filters += _UNLINKED
    statement = f"{_CANDIDATES}{filters} ORDER BY f.id DESC"
    portion = listing.limit
    while portion_numbers := list(islice(numbers, portion)):
        portion_json = json_list(portion_numbers)
        yield from fact_rows.facts(connection, statement, bindings | {"numbers": portion_json})
        portion = min(2 * portion, max(_MAX_PORTION, listing.limit))


def _is_filtered_here(listing: Listing) -> bool:
    """Return whether Python applies a filter: former tags, facets, or a text unfit for LIKE."""
    has_former_tag = listing.known_at is not None and listing.tag is not None
    return has_former_tag or bool(listing.facets) or _is_compared_here(listing.contains or "")


def _is_compared_here(text: str) -> bool:
    return not text.isascii() or "\0" in text


def _matches(fact: Fact, listing: Listing) -> bool:
    """Apply the filters that the statement lacks."""
    if not _is_filtered_here(listing):
        return True
    tags = {kais_facts.normalize_tag(tag) for tag in fact.tags}
    if listing.tag is not None and kais_facts.normalize_tag(listing.tag) not in tags:
        return False
    if not all(facets.has_facet(fact.data, facet) for facet in listing.facets):
        return False
    return listing.contains is None or domain.contains_text(fact, listing.contains)
