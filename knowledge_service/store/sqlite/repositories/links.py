"""Links in tables: created, closed, listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from knowledge_client.models import Link, Linked, LinkPage, NamedFact, Neighborhood
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.errors import NotFound
from knowledge_service.event_log import times
from knowledge_service.ports import Actor, AliasListing, IdempotencyKey, NeighbourQuery, NewLink
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import aliases, base, link_rows, link_traversal

_LINKED: TypeAdapter[Linked] = TypeAdapter(Linked)

_END = """SELECT s.path, s.scope_no, f.review FROM fact f JOIN scope s USING(scope_no)
  WHERE f.id = ? AND s.retired_at IS NULL"""
_ENDS = """SELECT f.fact_no, f.id, f.scope_no, s.path, f.review
  FROM json_each(?) n CROSS JOIN fact f ON f.id = n.value JOIN scope s USING(scope_no)
  WHERE s.retired_at IS NULL"""
_LIVE = f"""SELECT {link_rows.COLUMNS} {link_rows.JOINED}
  WHERE a.id = ? AND b.id = ? AND l.type = ? AND l.closed_at IS NULL"""
_OF_FACT = """SELECT x.id FROM link x JOIN fact f ON f.fact_no = x.from_no WHERE f.id = ?1
    UNION SELECT x.id FROM link x JOIN fact f ON f.fact_no = x.to_no WHERE f.id = ?1"""
_OF_FACT_SEEN = """SELECT x.id FROM fact f CROSS JOIN json_each(?4) s CROSS JOIN link x
      INDEXED BY link_out ON x.from_no = f.fact_no AND x.to_scope = s.value WHERE f.id = ?1
    UNION SELECT x.id FROM fact f CROSS JOIN json_each(?4) s CROSS JOIN link x
      INDEXED BY link_in ON x.to_no = f.fact_no AND x.from_scope = s.value WHERE f.id = ?1"""
_PAGE = f"""SELECT {link_rows.COLUMNS}, sa.path, a.review, sb.path, b.review {link_rows.JOINED}
  JOIN scope sa ON sa.scope_no = a.scope_no JOIN scope sb ON sb.scope_no = b.scope_no
  WHERE l.id IN ({_OF_FACT})
  AND sa.retired_at IS NULL AND sb.retired_at IS NULL
  AND (?2 IS NULL OR l.id < ?2) AND (?3 IS NULL OR l.type IN (SELECT value FROM json_each(?3)))
  ORDER BY l.id DESC"""


_FROM = f"""SELECT {link_rows.COLUMNS}, sb.path, b.review FROM json_each(?1) n
  CROSS JOIN fact a ON a.id = n.value CROSS JOIN json_each(?2) s
  CROSS JOIN link l INDEXED BY link_out ON l.from_no = a.fact_no AND l.to_scope = s.value
  JOIN fact b ON b.fact_no = l.to_no JOIN scope sa ON sa.scope_no = a.scope_no
  JOIN scope sb ON sb.scope_no = b.scope_no
  WHERE l.closed_at IS NULL AND sa.retired_at IS NULL AND sb.retired_at IS NULL
  AND b.lifecycle = 'live' AND b.kind = ?3 ORDER BY l.id"""


class Links(base.SqliteRepository):
    """The `LinkStore` port."""

    def link(
        self,
        new: NewLink,
        view: View,
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Linked:
        """Create a link, unless it is live."""
        return self._idempotent(idempotency_key, _LINKED, lambda tx: _link(tx, new, view, actor))

    def unlink(self, from_id: str, to_id: str, kind: str, *, actor: Actor) -> bool:
        """Close a live link."""

        def work(tx: Transaction) -> bool:
            row = tx.fetch_first(_LIVE, (from_id, to_id, kind))
            end = tx.fetch_first(_END, (from_id,))
            if row is None or end is None:
                return False
            part = {"id": row[0], "from": from_id, "to": to_id}
            tx.record("link.closed", scope_no=end[1], actor=actor.name, parts=[part])
            return True

        return self._writer.submit(work)

    def links(
        self, fact_id: str, view: View, *, types: Sequence[str], before_id: str | None, limit: int
    ) -> LinkPage:
        """List a page."""
        links: list[Link] = []
        types_json = json_list(list(types)) if types else None
        with self._readers.bulk_connection() as connection:
            bindings: tuple[Any, ...] = (fact_id, before_id, types_json)
            scopes = base.scope_filter(view, base.visible_scopes(connection, view, None)).scopes
            sql = _PAGE
            if scopes is not None:
                sql, bindings = _PAGE.replace(_OF_FACT, _OF_FACT_SEEN), (*bindings, scopes)
            for row in connection.execute(sql, bindings):
                if view.can_read_fact(*row[-4:-2]) and view.can_read_fact(*row[-2:]):
                    if len(links) == limit:
                        return LinkPage(links=tuple(links), cursor=links[-1].id)
                    links.append(link_rows.link_of(row))
        return LinkPage(links=tuple(links))

    def links_among(self, fact_ids: Sequence[str], view: View) -> tuple[Link, ...]:
        """Look up the facts, then read the links between them from the index."""
        with self._readers.bulk_connection() as connection:
            ids, scopes = {}, set()
            rows = connection.execute(_ENDS, (json_list(list(fact_ids)),))
            for number, fact_id, scope_no, path, review in rows:
                if view.can_read_fact(path, review):
                    ids[number] = fact_id
                    scopes.add(scope_no)
            return link_rows.among(connection, ids, scopes)

    def links_from(
        self, fact_ids: Sequence[str], view: View, *, to_kind: str, limit: int
    ) -> tuple[Link, ...]:
        """Read the links into the visible scopes from the index."""
        links: list[Link] = []
        with self._readers.bulk_connection() as connection:
            scopes = json_list(sorted(base.visible_scopes(connection, view, None)))
            ids = json_list(list(fact_ids))
            for row in connection.execute(_FROM, (ids, scopes, to_kind)):
                if view.can_read_fact(*row[-2:]):
                    links.append(link_rows.link_of(row))
                if len(links) == limit:
                    break
        return tuple(links)

    def neighbors(self, query: NeighbourQuery, view: View) -> Neighborhood:
        """Traverse links level by level in one snapshot."""
        with self._readers.bulk_connection() as connection:
            return link_traversal.neighborhood(connection, query, view)

    def list_aliases(self, listing: AliasListing) -> tuple[NamedFact, ...]:
        """Return a page of aliases."""
        with self._readers.bulk_connection() as connection:
            return aliases.read_page(connection, listing)

    def named(self, name: Name, view: View) -> tuple[tuple[str, str], ...]:
        """Look up a name."""
        with self._readers.snapshot() as connection:
            return aliases.find(connection, name, view)


def _link(tx: Transaction, new: NewLink, view: View, actor: Actor) -> Linked:
    scope_no = _visible_end(tx, new.from_id, view)
    _visible_end(tx, new.to_id, view)
    key = (new.from_id, new.to_id, new.type)
    live = tx.fetch_first(_LIVE, key)
    if live:
        return Linked(status="exists", link=link_rows.link_of(live))
    part = {
        "id": tx.new_id(), "from": new.from_id, "to": new.to_id, "type": new.type,
        "weight": new.weight, "data": new.data, "valid_from": times.to_us(new.valid_from),
        "valid_until": times.to_us(new.valid_until),
    }  # fmt: skip
    parts = [{name: value for name, value in part.items() if value is not None}]
    tx.record("link.made", scope_no=scope_no, actor=actor.name, parts=parts)
    event: Any = tx.fetch_first(_LIVE, key)
    return Linked(status="created", link=link_rows.link_of(event))


def _visible_end(tx: Transaction, fact_id: str, view: View) -> int:
    row = tx.fetch_first(_END, (fact_id,))
    if row is None or not view.can_read_fact(row[0], row[2]):
        raise NotFound(f"fact {fact_id} does not exist or is not visible to you")
    return int(row[1])
