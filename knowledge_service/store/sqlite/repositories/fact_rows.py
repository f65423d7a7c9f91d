"""Between rows of the fact table and facts."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import apsw

from knowledge_client import base_model
from knowledge_client.models import Fact, Source
from knowledge_service.event_log import times

COLUMNS = """f.id, s.path, f.kind, f.title, f.content, f.data, f.schema, f.about, f.position,
  f.subject, f.predicate, f.tags, f.confidence, f.source, f.lifecycle, f.review, f.flags,
  f.expires_at, f.valid_from, f.valid_until, f.recorded_at, f.closed_at, f.fact_no, f.closed_reason,
  f.version"""
FROM = "FROM fact f JOIN scope s USING(scope_no)"
SELECT = f"SELECT {COLUMNS} {FROM}"
_VERSIONED = (
    "tags", "confidence", "lifecycle", "review", "flags", "expires_at", "valid_from", "valid_until",
    "closed_at", "closed_reason", "version",
)  # fmt: skip
UNREVIEWED = "('draft', 'rejected')"
"""`visibility.UNREVIEWED` as SQL."""
_BY_NUMBERS = f"{SELECT} WHERE f.fact_no IN (SELECT value FROM json_each(?1))"


def select_as_of(mark: str) -> str:
    """Return the query for facts as they were known at the moment that is bound to `mark`."""
    columns = COLUMNS
    for name in _VERSIONED:
        then = f"CASE WHEN p.fact_no IS NULL THEN f.{name} ELSE p.{name} END AS {name}"
        columns = re.sub(rf"\bf\.{name}\b", then, columns, count=1)
    return f"""SELECT {columns} {FROM} LEFT JOIN fact_past p
      ON p.fact_no = f.fact_no AND p.since <= {mark} AND p.until > {mark}"""


_BY_NUMBERS_AS_OF = f"""{select_as_of("?2")} WHERE f.recorded_at <= ?2
  AND f.fact_no IN (SELECT value FROM json_each(?1))"""


def fact(row: Sequence[Any]) -> Fact:
    """Build a fact from the columns above; they were checked when they were written."""
    return base_model.construct_unchecked(
        Fact,
        {
            "id": row[0],
            "scope": row[1],
            "kind": row[2],
            "title": row[3],
            "content": row[4],
            "data": None if row[5] is None else json.loads(row[5]),
            "schema_": row[6],
            "about": row[7],
            "position": row[8],
            "subject": row[9],
            "predicate": row[10],
            "tags": _list(row[11]),
            "confidence": row[12],
            "source": _source(row[13]),
            "lifecycle": row[14],
            "review": row[15],
            "flags": _list(row[16]),
            "expires_at": times.from_us(row[17]),
            "valid_from": times.from_us(row[18]),
            "valid_until": times.from_us(row[19]),
            "recorded_at": times.from_us(row[20]),
            "closed_at": times.from_us(row[21]),
            "closed_reason": row[23],
            "version": row[24],
        },
    )


def _list(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _source(text: str) -> Source:
    # Most facts have one of few short sources; one with many references is not worth its place.
    return _known(text) if len(text) <= _SHORT else Source.model_validate_json(text)


_SHORT = 200
_known = functools.lru_cache(maxsize=1024)(Source.model_validate_json)


def facts(connection: apsw.Connection, sql: str, bindings: Sequence[Any]) -> Iterator[Fact]:
    """Run a query over the columns above."""
    for row in connection.execute(sql, bindings):
        yield fact(row)


def by_numbers(
    connection: apsw.Connection, numbers: Sequence[int], known_at: datetime | None = None
) -> dict[int, Fact]:
    """Look facts up by their internal numbers, as they are or as they were known at a moment."""
    named = json.dumps(list(numbers))
    if known_at is None:
        found = connection.execute(_BY_NUMBERS, (named,))
    else:
        found = connection.execute(_BY_NUMBERS_AS_OF, (named, times.to_us(known_at)))
    return {row[22]: fact(row) for row in found}
