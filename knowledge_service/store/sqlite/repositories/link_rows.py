"""Reads rows of the link table as links."""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from knowledge_client import base_model
from knowledge_client.models import Link
from knowledge_service.event_log import times
from knowledge_service.store.sqlite.json_lists import json_list

COLUMNS = """l.id, a.id, b.id, l.type, l.weight, l.data, l.valid_from, l.valid_until,
  l.recorded_at, l.closed_at, l.actor"""
JOINED = "FROM link l JOIN fact a ON a.fact_no = l.from_no JOIN fact b ON b.fact_no = l.to_no"
# The index alone answers the inner query, so only the requested links are read. The unary plus
# keeps SQLite from looking up each pair, which is slow for many facts with few links.
_AMONG = """SELECT l.id, l.from_no, l.to_no, l.type, l.weight, l.data, l.valid_from, l.valid_until,
    l.recorded_at, l.closed_at, l.actor FROM (
    SELECT x.id FROM json_each(?1) n CROSS JOIN json_each(?2) s
    CROSS JOIN link x INDEXED BY link_out ON x.from_no = n.value AND x.to_scope = s.value
    AND +x.to_no IN (SELECT value FROM json_each(?1))
    WHERE x.closed_at IS NULL) chosen
  CROSS JOIN link l ON l.id = chosen.id"""


def link_of(row: Sequence[Any]) -> Link:
    """Build a link from the columns above, which were validated when they were written."""
    return base_model.construct_unchecked(
        Link,
        {
            "id": row[0],
            "from_": row[1],
            "to": row[2],
            "type": row[3],
            "weight": row[4],
            "data": None if row[5] is None else json.loads(row[5]),
            "valid_from": times.from_us(row[6]),
            "valid_until": times.from_us(row[7]),
            "recorded_at": times.from_us(row[8]),
            "closed_at": times.from_us(row[9]),
            "actor": row[10],
        },
    )


def among(
    connection: apsw.Connection, ids: Mapping[int, str], scopes: Collection[int]
) -> tuple[Link, ...]:
    """Return the live links between some facts, which are given by number, oldest first.

    `scopes` are those of the facts: links into other scopes are not read.
    """
    bindings = (json_list(list(ids)), json_list(sorted(scopes)))
    id_rows: Any = connection.execute(_AMONG, bindings)
    rows = sorted(id_rows, key=operator.itemgetter(0))
    return tuple(link_of((row[0], ids[row[1]], ids[row[2]], *row[3:])) for row in rows)
