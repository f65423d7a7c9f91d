"""Walking along links: level by level over two covering indexes, only through what is visible.

A fact that the reader may not see is neither returned nor gone through, so that what lies behind it
changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain

import apsw

from knowledge_client import base_model
from knowledge_client.models import Neighbor, Neighborhood
from knowledge_service.domain.access_control import View
from knowledge_service.ports import NeighbourQuery
from knowledge_service.store.sqlite.repositories import base, fact_rows, link_rows

# Beyond this many facts nobody reads on; it bounds a walk from a hub.
_MOST = 20_000
# A level is asked for in slices: SQLite sorts what one statement unites.
_SLICE = 2_000
_LOOKED_AT = 64

_NUMBER = """SELECT f.fact_no FROM fact f JOIN scope s USING(scope_no)
  WHERE f.id = ? AND s.retired_at IS NULL"""
_ENDS = (("from", "to", "link_out"), ("to", "from", "link_in"))
_BESIDE = tuple(
    f"""SELECT x.{other}_no FROM json_each(?1) n
  CROSS JOIN link x INDEXED BY {index} ON x.{own}_no = n.value WHERE x.closed_at IS NULL
  AND (?2 IS NULL OR x.type IN (SELECT value FROM json_each(?2)))"""
    for own, other, index in _ENDS
)
_BESIDE_SEEN = tuple(
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
"""What selects facts with many links from them, and to them."""
_LIVE = f"""SELECT f.fact_no, f.scope_no FROM json_each(?1) n CROSS JOIN fact f
  ON f.fact_no = n.value WHERE f.lifecycle = 'live'
  AND (?2 OR f.review NOT IN {fact_rows.UNREVIEWED})"""


def number_of(connection: apsw.Connection, fact_id: str) -> int | None:
    """Return the number of a fact in a scope that is there."""
    return next((int(row[0]) for row in connection.execute(_NUMBER, (fact_id,))), None)


def _beside(
    connection: apsw.Connection,
    numbers: Sequence[int],
    types: Sequence[str],
    scopes: base.ScopeFilter,
) -> set[int]:
    """Return the other ends of the links of some facts, from the two indexes alone."""
    chosen = json.dumps(list(types)) if types else None
    found: set[int] = set()
    for start in range(0, len(numbers), _SLICE):
        slice_ = numbers[start : start + _SLICE]
        for sql, sql_seen, crowded in zip(_BESIDE, _BESIDE_SEEN, CROWDED, strict=True):
            few, many = scopes.split(connection, crowded, slice_)
            if few:
                rows_ = connection.execute(sql, (json.dumps(few), chosen))
                found.update(chain.from_iterable(rows_))
            if many:
                asked = (json.dumps(many), chosen, scopes.scopes)
                found.update(chain.from_iterable(connection.execute(sql_seen, asked)))
    return found


def _walkable(
    connection: apsw.Connection,
    numbers: Sequence[int],
    scopes: Mapping[int, str],
    wanted: int,
    *,
    drafts: bool,
) -> list[int]:
    """Return the first `wanted` of the facts that are live and visible, in their order."""
    found: list[int] = []
    size = max(wanted, _LOOKED_AT)
    for start in range(0, len(numbers), size):
        if len(found) >= wanted:
            break
        asked = (json.dumps(list(numbers[start : start + size])), drafts)
        rows_ = connection.execute(_LIVE, asked)
        found += sorted(int(number) for number, scope_no in rows_ if scope_no in scopes)
    return found[:wanted]


def neighborhood(connection: apsw.Connection, around: NeighbourQuery, view: View) -> Neighborhood:
    """Find the facts around one that the caller has seen; by distance, then the oldest first."""
    start = number_of(connection, around.fact_id)
    if start is None:
        return Neighborhood(facts=(), links=())
    scopes = base.scopes_seen(connection, view, None)
    asked = base.asked_scopes(view, scopes)
    seen, level = {start}, [start]
    order: list[tuple[int, int]] = []
    for depth in range(1, around.depth + 1):
        beside = sorted(_beside(connection, level, around.types, asked) - seen)
        # Of the last level only as many are looked at as will be shown, and one to tell of more.
        wanted = around.limit + 1 - len(order) if depth == around.depth else len(beside)
        level = _walkable(connection, beside, scopes, wanted, drafts=view.drafts)
        seen.update(level)
        order += [(depth, number) for number in level]
        if not level or len(order) > around.limit or len(seen) > _MOST:
            break
    chosen = order[: around.limit]
    facts = fact_rows.by_numbers(connection, [number for _, number in chosen])
    ids = {start: around.fact_id, **{number: facts[number].id for _, number in chosen}}
    own = {path: number for number, path in scopes.items()}
    start_scope = fact_rows.by_numbers(connection, [start])[start].scope
    paths = {start_scope, *(facts[number].scope for _, number in chosen)}
    among = link_rows.among(connection, ids, {own[path] for path in paths if path in own})
    return Neighborhood(
        facts=tuple(
            base_model.construct_unchecked(Neighbor, {"depth": depth, "fact": facts[number]})
            for depth, number in chosen
        ),
        links=tuple(link for link in among if not around.types or link.type in around.types),
        truncated=len(order) > around.limit,
    )
