"""Walks the log's hash chain: nothing changed, nothing missing but what was erased."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from knowledge_service.event_log import event_payloads
from knowledge_service.store.sqlite.transaction import event_hash

_LOG = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, e.payload_hash, e.prev_hash,
  p.salt, p.bytes FROM event e LEFT JOIN payload p USING(seq) ORDER BY e.seq"""
_ERASED = "SELECT p.salt, p.bytes FROM event e JOIN payload p USING(seq) WHERE type = 'fact.erased'"
_STRAY = "SELECT seq FROM payload WHERE seq NOT IN (SELECT seq FROM event)"
_ROOTS = "SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0"
_TREE = re.compile(r"Tree (\d+)")
# Enough to see what happened; a file that is damaged throughout fills no screen.
_MOST = 100


@dataclass(frozen=True)
class Report:
    """What a walk found; `problems` says in words what does not fit, empty when all does.

    With a whole log everything else can be made again.
    """

    events: int
    erased: int
    problems: tuple[str, ...]
    has_whole_log: bool = True


def verify(connection: apsw.Connection) -> Report:
    """Check the chain, every payload, and the database's own integrity.

    Damage of the file is a problem among others, so that all that is damaged is told.
    """
    log = walk(connection)
    integrity = list(_integrity(connection))
    problems = [*log.problems, *integrity]
    return Report(log.events, log.erased, tuple(problems[:_MOST]), log.has_whole_log)


def walk(connection: apsw.Connection) -> Report:
    """Check the chain and every payload: whether the log is what was recorded."""
    problems: list[str] = []
    count = erased = 0
    try:
        allowed = _erased(connection)
        for problem, is_erased in _walked(connection, allowed):
            count += 1
            erased += is_erased
            problems += problem
            if len(problems) >= _MOST:
                break
        problems += [f"payload {n} belongs to no event" for (n,) in connection.execute(_STRAY)]
    except apsw.CorruptError as exc:
        problems.append(f"the log cannot be read behind event {count} ({exc})")
    return Report(count, erased, tuple(problems[:_MOST]), not problems)


def _walked(connection: apsw.Connection, allowed: set[int]) -> Iterator[tuple[list[str], bool]]:
    """Go through the log: for each event what does not fit, and whether it was erased."""
    previous, expected = bytes(32), 1
    for row in connection.execute(_LOG):
        chained, salt, data = row[:7], row[7], row[8]
        problems = []
        if row[0] != expected or row[6] != previous:
            problems.append(f"event {row[0]} does not follow the one before it")
        if salt is None and row[0] not in allowed:
            problems.append(f"event {row[0]} has lost its payload")
        if salt is not None and not _fits(salt, data, row[5]):
            problems.append(f"event {row[0]} has another payload than was recorded")
        yield problems, salt is None
        previous, expected = event_hash(chained), row[0] + 1


def _fits(salt: bytes, data: bytes, expected: bytes) -> bool:
    try:
        return event_payloads.StoredPayload(salt, data).hash == expected
    except ValueError:
        return False


def _erased(connection: apsw.Connection) -> set[int]:
    found: set[int] = set()
    for salt, data in connection.execute(_ERASED):
        try:
            parts = event_payloads.decode(event_payloads.StoredPayload(salt, data))
        except event_payloads.UnreadablePayload:
            continue  # the walk itself reports this payload
        for part in parts:
            found |= set(part["events"]) if part else set()
    return found


def _integrity(connection: apsw.Connection) -> Iterator[str]:
    """Give what SQLite finds, with the names of tables for the numbers of their pages."""
    try:
        rows: Any = connection.execute("PRAGMA integrity_check(10)").fetchall()
        names = {str(page): str(name) for page, name in connection.execute(_ROOTS)}
    except apsw.CorruptError as exc:
        yield f"database: {exc}"
        return
    for (text,) in rows:
        if text != "ok":
            named = _TREE.sub(lambda tree: names.get(tree[1], tree[0]), text)
            yield f"database: {named}"
