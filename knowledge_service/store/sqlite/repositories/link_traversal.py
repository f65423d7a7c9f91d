"""Traverses links level by level over two covering indexes, through visible facts only.

A fact that the reader may not see is neither returned nor traversed, so that what is behind it has
no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import apsw

from knowledge_client import base_model
from knowledge_client.models import Neighbor, Neighborhood
from knowledge_service.domain.access_control import View
from knowledge_service.ports import NeighbourQuery
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.repositories import base, fact_rows, link_rows

# A larger neighbourhood is of no use to a reader; the bound limits a traversal from a hub.
_MAX_STEPS = 20_000
# A level is queried in slices, because SQLite sorts the union in one statement.
_SLICE = 2_000
_LOOKED_AT = 64

_NUMBER = """SELECT f.fact_no FROM fact f JOIN scope s USING(scope_no)
  WHERE f.id = ? AND s.retired_at IS NULL"""
_ENDS = (("from", "to", "link_out"), ("to", "from", "link_in"))
_NEIGHBOURS = tuple(
    f"""SELECT x.{other}_no FROM json_each(?1) n
  CROSS JOIN link x INDEXED BY {index} ON x.{own}_no = n.value WHERE x.closed_at IS NULL
  AND (?2 IS NULL OR x.type IN (SELECT value FROM json_each(?2)))"""
    for own, other, index in _ENDS
)
_NEIGHBOURS_BY_SCOPE = tuple(
    f"""SELECT x.{other}_no FROM json_each(?1) n CROSS JOIN json_each(?3) s
  CROSS JOIN link x INDEXED BY {index} ON x.{own}_no = n.value AND x.{other}_scope = s.value
  WHERE x.closed_at IS NULL AND (?2 IS NULL OR x.type IN (SELECT value FROM json_each(?2)))"""
    for own, other, index in _ENDS
)
CROWDED = tuple(
    f"""SELECT n.value FROM json_each(?1) n WHERE EXISTS(SELECT 1 FROM link INDEXED BY {index}
  WHERE {own}_no = n.value LIMIT 1 OFFSET ?2)"""
    for own, _, index in _ENDS
)
"""Queries that select facts with many links from them, and to them."""
_LIVE = f"""SELECT f.fact_no, f.scope_no FROM json_each(?1) n CROSS JOIN fact f
  ON f.fact_no = n.value WHERE f.lifecycle = 'live'
  AND (?2 OR f.review NOT IN {fact_rows.UNREVIEWED})"""


def number_of(connection: apsw.Connection, fact_id: str) -> int | None:
    """Return the number of a fact in an existing scope, or None."""
    return next((int(row[0]) for row in connection.execute(_NUMBER, (fact_id,))), None)


def _neighbours(
    connection: apsw.Connection,
    numbers: Sequence[int],
    types: Sequence[str],
    scopes: base.ScopeFilter,
) -> set[int]:
    """Return the other ends of the links of some facts, from the two indexes alone."""
    chosen = json_list(list(types)) if types else None
    neighbours: set[int] = set()
    for start in range(0, len(numbers), _SLICE):
        slice_ = numbers[start : start + _SLICE]
        for sql, sql_seen, crowded in zip(_NEIGHBOURS, _NEIGHBOURS_BY_SCOPE, CROWDED, strict=True):
            sparse, crowded_numbers = scopes.split(connection, crowded, slice_)
            if sparse:
                rows_ = connection.execute(sql, (json_list(sparse), chosen))
                neighbours.update(chain.from_iterable(rows_))
            if crowded_numbers:
                bindings = (json_list(crowded_numbers), chosen, scopes.scopes)
                neighbours.update(chain.from_iterable(connection.execute(sql_seen, bindings)))
    return neighbours


def _walkable(
    connection: apsw.Connection,
    numbers: Sequence[int],
    scopes: Mapping[int, str],
    limit: int,
    *,
    drafts: bool,
) -> list[int]:
    """Return the first `limit` of the facts that are live and visible, in their order."""
    walkable: list[int] = []
    size = max(limit, _LOOKED_AT)
    for start in range(0, len(numbers), size):
        if len(walkable) >= limit:
            break
        bindings = (json_list(list(numbers[start : start + size])), drafts)
        rows_ = connection.execute(_LIVE, bindings)
        walkable += sorted(int(number) for number, scope_no in rows_ if scope_no in scopes)
    return walkable[:limit]


def neighborhood(connection: apsw.Connection, around: NeighbourQuery, view: View) -> Neighborhood:
    """Return the facts around a visible one, ordered by distance, then oldest first."""
    start = number_of(connection, around.fact_id)
    if start is None:
        return Neighborhood(facts=(), links=())
    scopes = base.visible_scopes(connection, view, None)
    scope_filter = base.scope_filter(view, scopes)
    visited, level = {start}, [start]
    order: list[tuple[int, int]] = []
    for depth in range(1, around.depth + 1):
        neighbours = sorted(_neighbours(connection, level, around.types, scope_filter) - visited)
        # Of the last level, read only as many facts as the answer needs, and one more to know
        # whether there are further ones.
        limit = around.limit + 1 - len(order) if depth == around.depth else len(neighbours)
        level = _walkable(connection, neighbours, scopes, limit, drafts=view.drafts)
        visited.update(level)
        order += [(depth, number) for number in level]
        if not level or len(order) > around.limit or len(visited) > _MAX_STEPS:
            break
    chosen = order[: around.limit]
    facts = fact_rows.by_numbers(connection, [number for _, number in chosen])
    ids = {start: around.fact_id, **{number: facts[number].id for _, number in chosen}}
    number_of_path = {path: number for number, path in scopes.items()}
    start_scope = fact_rows.by_numbers(connection, [start])[start].scope
    paths = {start_scope, *(facts[number].scope for _, number in chosen)}
    among = link_rows.among(
        connection, ids, {number_of_path[path] for path in paths if path in number_of_path}
    )
    return Neighborhood(
        facts=tuple(
            base_model.construct_unchecked(Neighbor, {"depth": depth, "fact": facts[number]})
            for depth, number in chosen
        ),
        links=tuple(link for link in among if not around.types or link.type in around.types),
        truncated=len(order) > around.limit,
    )
