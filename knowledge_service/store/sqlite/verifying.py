"""Walks the log's hash chain: nothing changed, nothing missing but what was erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from knowledge_service.store.sqlite import payloads
from knowledge_service.store.sqlite.transaction import event_hash

_LOG = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, e.payload_hash, e.prev_hash,
  p.salt, p.bytes FROM event e LEFT JOIN payload p USING(seq) ORDER BY e.seq"""
_ERASED = "SELECT p.salt, p.bytes FROM event e JOIN payload p USING(seq) WHERE type = 'fact.erased'"
_STRAY = "SELECT seq FROM payload WHERE seq NOT IN (SELECT seq FROM event)"
# Enough to see what happened; a file that is damaged throughout fills no screen.
_MOST = 100


@dataclass(frozen=True)
class Report:
    """What a walk found; `problems` says in words what does not fit, empty when all does."""

    events: int
    erased: int
    problems: tuple[str, ...]


def verify(connection: apsw.Connection) -> Report:
    """Check the chain, every payload, and the database's own integrity."""
    problems: list[str] = []
    allowed = _erased(connection)
    count = erased = 0
    previous, expected = bytes(32), 1
    for row in connection.execute(_LOG):
        chained, salt, data = row[:7], row[7], row[8]
        if row[0] != expected or row[6] != previous:
            problems.append(f"event {row[0]} does not follow the one before it")
        if salt is None:
            erased += 1
            if row[0] not in allowed:
                problems.append(f"event {row[0]} has lost its payload")
        elif not _fits(salt, data, row[5]):
            problems.append(f"event {row[0]} has another payload than was recorded")
        previous, expected = event_hash(chained), row[0] + 1
        count += 1
        if len(problems) >= _MOST:
            break
    problems += [f"payload {seq} belongs to no event" for (seq,) in connection.execute(_STRAY)]
    problems += list(_integrity(connection))
    return Report(count, erased, tuple(problems[:_MOST]))


def _fits(salt: bytes, data: bytes, expected: bytes) -> bool:
    try:
        return payloads.Sealed(salt, data).hash == expected
    except ValueError:
        return False


def _erased(connection: apsw.Connection) -> set[int]:
    found: set[int] = set()
    for salt, data in connection.execute(_ERASED):
        try:
            parts = payloads.unseal(payloads.Sealed(salt, data))
        except ValueError:
            continue  # the walk itself reports this payload
        for part in parts:
            found |= set(part["events"]) if part else set()
    return found


def _integrity(connection: apsw.Connection) -> Iterator[str]:
    rows: Any = connection.execute("PRAGMA integrity_check(10)")
    yield from (f"database: {text}" for (text,) in rows if text != "ok")
