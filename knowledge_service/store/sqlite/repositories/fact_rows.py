"""Reads rows of the fact table as facts."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, cast

import apsw
import msgspec

from knowledge_client import base_model
from knowledge_client.models import Fact, Source
from knowledge_service.domain import chart_statements
from knowledge_service.domain.fact_fields import STORED_FIELDS, Encoding
from knowledge_service.event_log import times
from knowledge_service.event_log.fact_events import CHANGEABLE
from knowledge_service.store.sqlite.json_lists import json_list

_FIELDS = tuple(Fact.model_fields)
_COLUMN_OF = {each.attribute: each.name for each in STORED_FIELDS}
_NAMES = tuple(_COLUMN_OF.get(attribute, attribute) for attribute in _FIELDS)
_VERSIONED = frozenset((*CHANGEABLE, "version"))
SCOPE, NUMBER = _FIELDS.index("scope"), len(_FIELDS)
"""The positions of the scope's path and the fact's number in a row."""
FROM = "FROM fact f JOIN scope s USING(scope_no)"
_COLUMNS = ", ".join("s.path" if name == "scope" else f"f.{name}" for name in _NAMES)
SELECT_COLUMNS = f"SELECT {_COLUMNS}, f.fact_no"
SELECT = f"{SELECT_COLUMNS} {FROM}"
UNREVIEWED = "('draft', 'rejected')"
"""`access_control.UNREVIEWED` as SQL."""
TITLE_OF = f"""CASE WHEN f.kind = '{chart_statements.OBSERVATION}' AND f.position = 0 THEN
  (SELECT e.subject FROM fact e WHERE e.id = f.about AND e.scope_no = f.scope_no
  AND e.kind = '{chart_statements.ENTITY}' AND e.schema = '{chart_statements.SCHEMA}') END"""
"""The type of the entity whose title a fact is, else NULL; that entity is in the same scope."""
_TITLE_OF = f"SELECT {TITLE_OF} FROM fact f WHERE f.id = ?"
# A JSON array of arrays, because SQLite releases the interpreter's lock for each row of a result,
# and other threads then take it. Writing the JSON needs no lock, and reading it less than the rows.
_BY_NUMBERS = f"""SELECT json_group_array(json_array({_COLUMNS}, f.fact_no)) {FROM}
  WHERE f.fact_no IN (SELECT value FROM json_each(?1))"""
_JSON_ROWS = msgspec.json.Decoder(list[list[Any]])
# Rows in one JSON text; more of them are read in several, so that no text takes much memory.
_MAX_JSON_ROWS = 512


def select_as_of(mark: str) -> str:
    """Return the query for facts as they were known at the time that is bound to `mark`."""
    columns = ", ".join(map(_column_as_of, _NAMES))
    return f"""SELECT {columns}, f.fact_no {FROM} LEFT JOIN fact_past p
      ON p.fact_no = f.fact_no AND p.since <= {mark} AND p.until > {mark}"""


def _column_as_of(name: str) -> str:
    if name in _VERSIONED:
        return f"CASE WHEN p.fact_no IS NULL THEN f.{name} ELSE p.{name} END AS {name}"
    return "s.path" if name == "scope" else f"f.{name}"


# A reader without drafts does not see facts that were rejected since, either.
_BY_NUMBERS_AS_OF = f"""{select_as_of("?2")} WHERE f.recorded_at <= ?2
  AND f.fact_no IN (SELECT value FROM json_each(?1)) AND (?3 OR f.review NOT IN {UNREVIEWED})"""


def fact(row: Sequence[Any]) -> Fact:
    """Build a fact from the columns of `SELECT`, which were validated when they were written."""
    values = list(row)
    for at, decode in _DECODERS:
        value = values[at]
        if value is not None:
            values[at] = decode(value)
    return base_model.construct_unchecked(
        Fact,
        dict(zip(_FIELDS, values, strict=False)),  # the number is not a field
    )


def _list(text: str) -> tuple[str, ...]:
    if text == "[]":
        return ()
    return _cached_list(text) if len(text) <= _SHORT else _parse_list(text)


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _source(text: str) -> Source:
    # Most facts have one of a few short sources and lists of tags; long ones are not worth caching.
    return _cached_source(text) if len(text) <= _SHORT else Source.model_validate_json(text)


_SHORT = 200
_cached_source = functools.lru_cache(maxsize=1024)(Source.model_validate_json)
_cached_list = functools.lru_cache(maxsize=1024)(_parse_list)
_DECODER_OF: Mapping[Encoding, Callable[[Any], Any]] = {
    Encoding.TIME: times.from_us,
    Encoding.JSON: json.loads,
    Encoding.TEXTS: _list,
    Encoding.SOURCE: _source,
}
_ENCODING_OF = {each.attribute: each.encoding for each in STORED_FIELDS} | dict.fromkeys(
    ("recorded_at", "closed_at"), Encoding.TIME
)
_DECODERS = tuple(
    (at, _DECODER_OF[_ENCODING_OF[name]])
    for at, name in enumerate(_FIELDS)
    if _ENCODING_OF.get(name) in _DECODER_OF
)


def facts(
    connection: apsw.Connection, sql: str, bindings: Sequence[Any] | Mapping[str, Any]
) -> Iterator[Fact]:
    """Run a query for the columns above."""
    for row in connection.execute(sql, bindings):
        yield fact(row)


def title_of(connection: apsw.Connection, fact: Fact) -> str | None:
    """Return the type of the entity of the same scope whose title a fact is, or None."""
    if not chart_statements.is_title(fact.kind, fact.position):
        return None
    cursor: Any = connection.execute(_TITLE_OF, (fact.id,))
    ((type_,),) = cursor
    return None if type_ is None else str(type_)


def json_texts(connection: apsw.Connection, sql: str, numbers: Sequence[int]) -> Iterator[str]:
    """Yield the JSON arrays of a query of facts by their numbers, of some hundred rows each."""
    for start in range(0, len(numbers), _MAX_JSON_ROWS):
        portion = json_list(numbers[start : start + _MAX_JSON_ROWS])
        for (text,) in connection.execute(sql, (portion,)):
            yield cast("str", text)


def by_numbers(
    connection: apsw.Connection,
    numbers: Sequence[int],
    known_at: datetime | None = None,
    *,
    drafts: bool = True,
) -> dict[int, Fact]:
    """Return facts by their internal numbers, as they are or as they were known at `known_at`.

    Without `drafts`, the earlier versions of facts that are unreviewed now are left out.
    """
    return from_texts(texts_by_numbers(connection, numbers, known_at, drafts=drafts))


def texts_by_numbers(
    connection: apsw.Connection,
    numbers: Sequence[int],
    known_at: datetime | None,
    *,
    drafts: bool = True,
) -> list[str]:
    """Return the rows of facts as JSON arrays, for `from_texts`."""
    if known_at is None:
        return list(json_texts(connection, _BY_NUMBERS, numbers))
    bindings = (json_list(list(numbers)), times.to_us(known_at), drafts)
    rows = connection.execute(_BY_NUMBERS_AS_OF, bindings).fetchall()
    return [msgspec.json.encode(rows).decode()]


def from_texts(texts: Iterable[str]) -> dict[int, Fact]:
    """Return the facts of some rows by their internal numbers."""
    rows = chain.from_iterable(map(_JSON_ROWS.decode, texts))
    return {row[NUMBER]: fact(row) for row in rows}
