"""An index of the facts of a schema by values in their data.

The table has one row for each facet of a fact (`domain.facets`), with a hash of schema, name and
value. A fact with more than `_MAX_FACETS` facets has a single row that stands for all of them. A
search therefore yields candidates, newest first, which are compared with the facts themselves. Data
never changes, so the rows are written together with the fact.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import apsw

from knowledge_service.clock import Clock
from knowledge_service.domain import facets
from knowledge_service.domain.facets import Facet
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.json_lists import json_list

# Arbitrary; typical records have at most some forty facets.
_MAX_FACETS = 128
# A search of more scopes runs one query for all of them instead of one for each.
_MAX_RANGES = 64
# The maximum number of rows that are counted to find the rarest facet of a search.
_SAMPLE_SIZE = 1_000
_LAST_FACT = (1 << 63) - 1

DataOfFact = tuple[int | None, int, str | None, str | None]
"""Scope, number, schema, and data as JSON of a fact."""
_EXISTS = "SELECT 1 FROM sqlite_schema WHERE name = 'fact_facet'"
_MOVE = "UPDATE fact_facet SET scope_no = ? WHERE scope_no = ?"
_CLEAR = "DELETE FROM fact_facet"
_ADD = "INSERT OR IGNORE INTO fact_facet(scope_no, facet, fact_no) VALUES(?, ?, ?)"
_REMOVE = "DELETE FROM fact_facet WHERE scope_no = ? AND facet = ? AND fact_no = ?"
_DATA = "SELECT scope_no, fact_no, schema, data FROM fact WHERE {} AND data IS NOT NULL"
_OF_FACT = _DATA.format("fact_no = ? AND schema IS NOT NULL")
_OF_ALL = _DATA.format("schema IS NOT NULL")
_IN_RANGE = "c.scope_no = ?1 AND c.facet = ?2 AND c.fact_no <= ?3"
_SAMPLE = (
    f"SELECT count(*) FROM (SELECT 1 FROM fact_facet c WHERE {_IN_RANGE} LIMIT {_SAMPLE_SIZE})"
)
_RANGE = f"""SELECT c.fact_no FROM fact_facet c WHERE {_IN_RANGE} AND NOT EXISTS (
    SELECT 1 FROM json_each(?4) o WHERE NOT EXISTS (SELECT 1 FROM fact_facet x
      WHERE x.scope_no = c.scope_no AND x.facet = o.value AND x.fact_no = c.fact_no))
  ORDER BY c.fact_no DESC"""
_IN_MANY_SCOPES = """SELECT c.fact_no FROM json_each(?1) s
  CROSS JOIN fact_facet c ON c.scope_no = s.value AND c.facet = ?2 WHERE c.fact_no <= ?3"""


def add(connection: apsw.Connection, facts: Iterable[DataOfFact]) -> None:
    """Add the rows of facts."""
    rows = [row for fact in facts for row in _rows(*fact)]
    if rows and _exists(connection):
        connection.executemany(_ADD, rows)


def remove(connection: apsw.Connection, fact_no: int) -> None:
    """Remove the rows of a fact, which still exists."""
    if not _exists(connection):
        return
    for fact in connection.execute(_OF_FACT, (fact_no,)).fetchall():
        connection.executemany(_REMOVE, _rows(*fact))  # type: ignore[arg-type]


def move(connection: apsw.Connection, from_scope: int, to_scope: int | None) -> None:
    """Move the rows of a scope to another one."""
    if _exists(connection):
        connection.execute(_MOVE, (to_scope, from_scope))


def clear(connection: apsw.Connection) -> None:
    """Remove all rows."""
    if _exists(connection):
        connection.execute(_CLEAR)


def fill(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Fill the empty table from all facts, in the caller's transaction."""
    rows: Any = connection.execute(_OF_ALL)
    connection.executemany(_ADD, (row for fact in rows for row in _rows(*fact)))


def candidates(
    connection: apsw.Connection,
    scopes: Collection[int],
    schema: str,
    conditions: Sequence[Facet],
    before_no: int | None = None,
) -> Iterator[int]:
    """Yield the numbers of facts of a schema that can have some facets, newest first.

    With `before_no`, only lower numbers.
    """
    keys = [_key(schema, facet) for facet in conditions]
    newest = _LAST_FACT if before_no is None else before_no - 1
    searches = (keys, [_key(schema, None)])
    if len(scopes) > _MAX_RANGES:
        scopes_json = json_list(sorted(scopes))
        numbers = {
            number
            for first, *_ in searches
            for (number,) in connection.execute(_IN_MANY_SCOPES, (scopes_json, first, newest))
        }
        yield from sorted((int(str(number)) for number in numbers), reverse=True)
        return
    ranges = [
        _in_range(connection, scope_no, each, newest) for scope_no in scopes for each in searches
    ]
    yield from heapq.merge(*ranges, reverse=True)


def _in_range(
    connection: apsw.Connection, scope_no: int, keys: Sequence[int], newest: int
) -> Iterator[int]:
    """Yield the facts of a scope with all keys, read by the rarest key."""
    rarest, *others = sorted(keys, key=lambda key: _count(connection, scope_no, key, newest))
    bindings = (scope_no, rarest, newest, json_list(others))
    yield from (int(str(number)) for (number,) in connection.execute(_RANGE, bindings))


def _count(connection: apsw.Connection, scope_no: int, key: int, newest: int) -> int:
    rows: Any = connection.execute(_SAMPLE, (scope_no, key, newest)).fetchall()
    return int(rows[0][0])


def _exists(connection: apsw.Connection) -> bool:
    """Return whether schema 23 is applied: migration 2 replays events before it."""
    return any(True for _ in connection.execute(_EXISTS))


def _rows(
    scope_no: int | None, fact_no: int, schema: str | None, data: str | None
) -> list[tuple[int | None, int, int]]:
    if schema is None or data is None:
        return []
    keys: set[int] = set()
    for facet in facets.facets_of(json.loads(data)):
        keys.add(_key(schema, facet))
        if len(keys) > _MAX_FACETS:
            keys = {_key(schema, None)}
            break
    return [(scope_no, key, fact_no) for key in sorted(keys)]


def _key(schema: str, facet: Facet | None) -> int:
    """Return the hash of a facet; of None, the hash that stands for too many facets."""
    text = "\0".join((schema, *(facet or ())))
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)
