"""Walking along links: level by level over two covering indexes, only through what is visible.

A fact that the reader may not see is neither returned nor gone through, so that what lies behind it
changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import apsw

from knowledge_client import wire
from knowledge_client.models import Neighbor, Neighborhood
from knowledge_service.domain.visibility import View
from knowledge_service.ports import Around
from knowledge_service.store.sqlite import link_rows, part, rows

# Beyond this many facts nobody reads on; it bounds a walk from a hub.
_MOST = 20_000
# A level is asked for in slices: SQLite sorts what one statement unites.
_SLICE = 2_000
_LOOKED_AT = 64

_NUMBER = """SELECT f.fact_no FROM fact f JOIN scope s USING(scope_no)
  WHERE f.id = ? AND s.retired_at IS NULL"""
_FROM_THEM, _TO_THEM = (
    f"""SELECT x.{other} FROM json_each(?1) n
  CROSS JOIN link x INDEXED BY {index} ON x.{own} = n.value WHERE x.closed_at IS NULL
  AND (?2 IS NULL OR x.type IN (SELECT value FROM json_each(?2)))"""
    for own, other, index in (("from_no", "to_no", "link_out"), ("to_no", "from_no", "link_in"))
)
_LIVE = """SELECT f.fact_no, f.scope_no FROM json_each(?) n CROSS JOIN fact f
  ON f.fact_no = n.value WHERE f.lifecycle = 'live'"""
_NEXT = """SELECT l.of_no, l.other_no, l.type, f.scope_no FROM (
    SELECT n.value AS of_no, x.to_no AS other_no, x.type FROM json_each(?1) n
      CROSS JOIN link x INDEXED BY link_out ON x.from_no = n.value WHERE x.closed_at IS NULL
    UNION ALL
    SELECT n.value, x.from_no, x.type FROM json_each(?1) n
      CROSS JOIN link x INDEXED BY link_in ON x.to_no = n.value WHERE x.closed_at IS NULL) l
  CROSS JOIN fact f ON f.fact_no = l.other_no
  WHERE f.lifecycle = 'live' AND (?2 IS NULL OR l.type IN (SELECT value FROM json_each(?2)))"""


def number_of(connection: apsw.Connection, fact_id: str) -> int | None:
    """Return the number of a fact in a scope that is there."""
    return next((int(row[0]) for row in connection.execute(_NUMBER, (fact_id,))), None)


def linked(
    connection: apsw.Connection,
    numbers: Sequence[int],
    scopes: Collection[int] | Mapping[int, str],
    types: Sequence[str] = (),
) -> list[tuple[int, int, str]]:
    """Return (fact, the live fact it is linked with, type) for each link of some facts.

    Both directions, only facts of the given scopes, ordered by the numbers.
    """
    chosen = json.dumps(list(types)) if types else None
    found: list[tuple[int, int, str]] = []
    for start in range(0, len(numbers), _SLICE):
        asked = (json.dumps(list(numbers[start : start + _SLICE])), chosen)
        found += [
            (int(of_no), int(other_no), str(kind))
            for of_no, other_no, kind, scope_no in connection.execute(_NEXT, asked)
            if scope_no in scopes
        ]
    return sorted(found)


def _beside(connection: apsw.Connection, numbers: Sequence[int], types: Sequence[str]) -> set[int]:
    """Return the other ends of the links of some facts, from the two indexes alone."""
    chosen = json.dumps(list(types)) if types else None
    found: set[int] = set()
    for start in range(0, len(numbers), _SLICE):
        asked = (json.dumps(list(numbers[start : start + _SLICE])), chosen)
        for sql in (_FROM_THEM, _TO_THEM):
            found.update(chain.from_iterable(connection.execute(sql, asked)))
    return found


def _walkable(
    connection: apsw.Connection,
    numbers: Sequence[int],
    scopes: Mapping[int, str],
    wanted: int,
) -> list[int]:
    """Return the first `wanted` of the facts that are live and visible, in their order."""
    found: list[int] = []
    size = max(wanted, _LOOKED_AT)
    for start in range(0, len(numbers), size):
        if len(found) >= wanted:
            break
        asked = (json.dumps(list(numbers[start : start + size])),)
        rows_ = connection.execute(_LIVE, asked)
        found += sorted(int(number) for number, scope_no in rows_ if scope_no in scopes)
    return found[:wanted]


def neighborhood(connection: apsw.Connection, around: Around, view: View) -> Neighborhood:
    """Find the facts around one that the caller has seen; by distance, then the oldest first."""
    start = number_of(connection, around.fact_id)
    if start is None:
        return Neighborhood(facts=(), links=())
    scopes = part.scopes_seen(connection, view, None)
    seen, level = {start}, [start]
    order: list[tuple[int, int]] = []
    for depth in range(1, around.depth + 1):
        beside = sorted(_beside(connection, level, around.types) - seen)
        # Of the last level only as many are looked at as will be shown, and one to tell of more.
        wanted = around.limit + 1 - len(order) if depth == around.depth else len(beside)
        level = _walkable(connection, beside, scopes, wanted)
        seen.update(level)
        order += [(depth, number) for number in level]
        if not level or len(order) > around.limit or len(seen) > _MOST:
            break
    chosen = order[: around.limit]
    facts = rows.by_numbers(connection, [number for _, number in chosen])
    ids = {start: around.fact_id, **{number: facts[number].id for _, number in chosen}}
    among = link_rows.among(connection, ids)
    return Neighborhood(
        facts=tuple(
            wire.built(Neighbor, {"depth": depth, "fact": facts[number]})
            for depth, number in chosen
        ),
        links=tuple(link for link in among if not around.types or link.type in around.types),
        truncated=len(order) > around.limit,
    )
