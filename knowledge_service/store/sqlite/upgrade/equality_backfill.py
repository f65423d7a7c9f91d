"""Computes the hashes of the facts whose schema says which members of their data count."""

from __future__ import annotations

import json
from typing import Any

import apsw

from knowledge_service.clock import Clock
from knowledge_service.domain.facts import content_hash
from knowledge_service.domain.schema_equality import COUNTED_MEMBERS
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.json_lists import json_list
from knowledge_service.store.sqlite.projections import hash_index_table
from knowledge_service.store.sqlite.projections.hash_index_table import ChangedHash

_NAMES = ("kind", "content", "subject", "predicate", "about", "schema", "data")
_FACTS = f"""SELECT fact_no, scope_no, content_hash, {", ".join(_NAMES)} FROM fact
  WHERE schema IN (SELECT value FROM json_each(?))"""
_UPDATE = "UPDATE fact SET content_hash = ? WHERE fact_no = ?"


def fill(connection: apsw.Connection, _clock: Clock, _progress: Progress) -> None:
    """Update the hashes, and their entries in the table of equal facts."""
    rows: Any = connection.execute(_FACTS, (json_list(list(COUNTED_MEMBERS)),))
    changed: list[ChangedHash] = []
    for fact_no, scope_no, old_hash, *values in rows:
        fact = dict(zip(_NAMES, values, strict=True))
        new_hash = content_hash(fact | {"data": json.loads(fact["data"] or "null")})
        if new_hash != old_hash:
            changed.append(ChangedHash(scope_no, fact_no, old_hash, new_hash))
    connection.executemany(_UPDATE, [(row.new, row.number) for row in changed])
    hash_index_table.replace_hashes(connection, changed)
