"""Drops every projection and replays the log, and says what the projections are, to the byte.

What is compared is the canonical dump: every row of every projection table by its key, and the
index as postings, because how these lie in blocks and tail depends on when they were folded.
Receipts, usage and keys of repeats are no projections: they are kept as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import apsw

from knowledge_service.domain.facts import canonical
from knowledge_service.index import postings as blocks
from knowledge_service.store.sqlite import payloads, postings, projections
from knowledge_service.store.sqlite.projections import facts, kept
from knowledge_service.store.sqlite.projections.event import Event

_REPLAY_FROM = "SELECT coalesce((SELECT value FROM meta WHERE key = 'replay_from'), '1')"
_LOG = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, p.salt, p.bytes
  FROM event e LEFT JOIN payload p USING(seq) WHERE e.seq >= ? ORDER BY e.seq"""
_INDEX = ("block", "tail")
_POSTINGS = "SELECT scope_no, term, n, data FROM block ORDER BY scope_no, term, block_no"
_TAIL = "SELECT scope_no, term, fact_no, tf, length FROM tail"


def replay(connection: apsw.Connection) -> int:
    """Drop the projections and make them again, inside the caller's transaction; count events."""
    connection.execute("PRAGMA defer_foreign_keys=ON")
    for table in projections.TABLES:
        connection.execute(f'DELETE FROM "{table}"')
    count = 0
    for event in events(connection):
        projections.apply(connection, event)
        _index(connection, event)
        count += 1
    return count


def rebuild(connection: apsw.Connection) -> int:
    """Replay in a transaction of its own, so that a failure leaves everything as it was."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        count = replay(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return count


def events(connection: apsw.Connection) -> Iterator[Event]:
    """Go through the part of the log that the projections are made of."""
    start: Any = connection.execute(_REPLAY_FROM).fetchall()[0][0]
    for seq, scope_no, kind, actor, at, salt, data in connection.execute(_LOG, (int(start),)):
        parts = () if salt is None else payloads.unseal(payloads.Sealed(salt, data))
        yield Event(seq, scope_no, kind, actor, at, parts)


def fingerprint(connection: apsw.Connection) -> dict[str, str]:
    """Hash the canonical dump of each projection table, and of the index as `postings`."""
    found = {
        table: _hash(_rows(connection, table))
        for table in projections.TABLES
        if table not in _INDEX
    }
    return found | {"postings": _hash(_postings(connection))}


def _index(connection: apsw.Connection, event: Event) -> None:
    if event.type == facts.RECORDED and event.scope_no is not None:
        for number, text in facts.texts(event):
            postings.add(connection, event.scope_no, number, text)
    elif event.type == kept.TYPE:
        for scope_no, number, text in kept.texts(event):
            postings.add(connection, scope_no, number, text)


def _rows(connection: apsw.Connection, table: str) -> Iterator[Any]:
    keys = connection.execute(
        "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
    ).fetchall()
    order = ", ".join(f'"{name}"' for (name,) in keys)
    yield from connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}')


def _postings(connection: apsw.Connection) -> Iterator[Any]:
    found: list[tuple[Any, ...]] = list(connection.execute(_TAIL))
    for scope_no, term, n, data in connection.execute(_POSTINGS):
        found += [(scope_no, term, *row) for row in blocks.rows(n, data)]
    yield from sorted(found)


def _hash(rows: Iterator[Any]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        plain = [item.hex() if isinstance(item, bytes) else item for item in row]
        digest.update(canonical(plain).encode() + b"\n")
    return digest.hexdigest()
