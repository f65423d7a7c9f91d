"""The whole store as lines of JSON: the log, what no log has, and an end that tells how many.

    {"format": "kais-export/1", "schema": 4, ...}
    {"table": "receipt", "row": {...}}       what is no projection: receipts, usage, the store's id
    {"event": [seq, scope, type, actor, at, payload hash, previous hash], "salt", "lines"}
    {"end": {"events": n, "rows": n, "sha256": of all lines before}}

Projections and the index are left out: an import replays the log. Keys of repeated calls are left
out too: they are forgotten within a day. Exporting what was imported gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import apsw

from knowledge_service import clock as clocks
from knowledge_service.domain.facts import canonical
from knowledge_service.errors import StartupError
from knowledge_service.event_log import event_payloads
from knowledge_service.store.sqlite import connection as files
from knowledge_service.store.sqlite import (
    copies,
    migrate,
    postings,
    projections,
    rebuilding,
)
from knowledge_service.store.sqlite.transaction import event_hash

FORMAT = "kais-export/1"
_LOG = frozenset({"event", "payload"})
# The index is made anew from the log, repeats of calls are forgotten, migrations are the file's.
_LEFT_OUT = frozenset({"posting", "equal", "idempotency", "migration"})
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_SCHEMA = "SELECT max(number) FROM migration"
_EVENTS = """SELECT e.seq, e.scope_no, e.type, e.actor, e.at, e.payload_hash, e.prev_hash,
  p.salt, p.bytes FROM event e LEFT JOIN payload p USING(seq) ORDER BY e.seq"""
_EVENT = """INSERT INTO event(seq, scope_no, type, actor, at, payload_hash, prev_hash)
  VALUES(?, ?, ?, ?, ?, ?, ?)"""
_PAYLOAD = "INSERT INTO payload(seq, salt, bytes) VALUES(?, ?, ?)"


@dataclass(frozen=True)
class Moved:
    """How much was exported or imported."""

    events: int
    rows: int


def export(path: Path, out: BinaryIO) -> Moved:
    """Write a database's export; a service may go on with it meanwhile.

    Raises:
        StartupError: it cannot be read.
        OSError: what is written to cannot take it.
    """
    copies.known(path)
    try:
        reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            reading.set_busy_timeout(5000)
            return write(reading, out)
        finally:
            reading.close()
    except apsw.Error as exc:
        raise files.damaged(path, exc) from exc


def take(path: Path, lines: Iterable[bytes], clock: clocks.Clock = clocks.now) -> Moved:
    """Make a database of an export.

    Raises:
        FileLocked: a process serves the database.
        StartupError: as `read`, or the disk does not take it.
    """
    lock = files.lock(path)
    try:
        writing = files.open_writer(path)
        try:
            migrate.migrate(writing, clock)
            return read(writing, lines)
        except apsw.Error as exc:
            said = files.words(exc)
            raise StartupError(f"cannot import into {path} ({said}); nothing was imported") from exc
        finally:
            files.let_go(writing)
    finally:
        lock.close()


def kept_tables(connection: apsw.Connection) -> list[str]:
    """Name the tables that neither the log nor a replay of it makes."""
    made = _LOG | _LEFT_OUT | set(projections.TABLES)
    return sorted(str(name) for (name,) in connection.execute(_TABLES) if name not in made)


def write(connection: apsw.Connection, out: BinaryIO) -> Moved:
    """Write the store as it is in one snapshot; others may write meanwhile."""
    digest, events, rows = hashlib.sha256(), 0, 0

    def line(value: Any) -> None:
        data = canonical(value).encode() + b"\n"
        digest.update(data)
        out.write(data)

    connection.execute("BEGIN")
    try:
        (schema,) = next(iter(connection.execute(_SCHEMA)))
        line({"format": FORMAT, "schema": schema})
        for table in kept_tables(connection):
            for row in _rows(connection, table):
                line({"table": table, "row": row})
                rows += 1
        for row in connection.execute(_EVENTS):
            line(_event(row))
            events += 1
    finally:
        connection.execute("COMMIT")
    line({"end": {"events": events, "rows": rows, "sha256": digest.hexdigest()}})
    return Moved(events, rows)


def read(connection: apsw.Connection, lines: Iterable[bytes]) -> Moved:
    """Take an export into an empty store: all of it or nothing.

    Raises:
        StartupError: the store is not empty, or the export is torn, changed or of a newer schema;
            the message names the line.
    """
    if next(iter(connection.execute("SELECT 1 FROM event LIMIT 1")), None):
        raise StartupError("the database is not empty; import into a new file")
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("PRAGMA defer_foreign_keys=ON")
        moved = _Reader(connection).take(lines)
        rebuilding.replay(connection)
        postings.clear(connection)
        connection.execute("DELETE FROM meta WHERE key = 'index'")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    rebuilding.renew_index(connection)
    return moved


def _rows(connection: apsw.Connection, table: str) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY {_key(connection, table)}')
    for row in cursor:
        names = [name for name, _ in cursor.get_description()]
        yield {name: _plain(value) for name, value in zip(names, row, strict=True)}


def _key(connection: apsw.Connection, table: str) -> str:
    keys: Any = connection.execute(
        "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
    ).fetchall()
    return ", ".join(f'"{name}"' for (name,) in keys) or "rowid"


def _plain(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _stored(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def _event(row: tuple[Any, ...]) -> dict[str, Any]:
    salt, data = row[7], row[8]
    return {
        "event": [item.hex() if isinstance(item, bytes) else item for item in row[:7]],
        "salt": None if salt is None else salt.hex(),
        "lines": None if data is None else data.decode().split("\n"),
    }


class _Reader:
    """Checks and stores an export, line by line."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._digest = hashlib.sha256()
        self._previous = bytes(32)
        self._events = self._rows = 0
        self._known = set(kept_tables(connection))

    def take(self, lines: Iterable[bytes]) -> Moved:
        number = 0
        for number, data in enumerate(lines, start=1):
            value = _parsed(data, number)
            if "end" in value:
                return self._ended(value["end"], number)
            self._digest.update(data)
            try:
                self._line(value, number)
            except (KeyError, TypeError, ValueError, AttributeError, apsw.Error) as exc:
                raise StartupError(f"line {number} is no line of an export: {exc}") from exc
        raise StartupError(
            f"the export is torn after line {number}: its end is missing; nothing was imported"
        )

    def _line(self, value: dict[str, Any], number: int) -> None:
        if number == 1:
            self._header(value)
        elif "table" in value:
            self._row(value["table"], value["row"])
        else:
            self._take_event(value, number)

    def _header(self, value: dict[str, Any]) -> None:
        (newest,) = next(iter(self._connection.execute(_SCHEMA)))
        if value.get("format") != FORMAT:
            raise StartupError(f"this is no export of kais-knowledge: expected {FORMAT}")
        if value["schema"] > newest:
            raise StartupError(
                f"the export has schema {value['schema']}, this version knows up to {newest};"
                " import it with a newer version"
            )

    def _row(self, table: str, row: dict[str, Any]) -> None:
        if table not in self._known:
            raise ValueError(f"there is no table {table}")
        columns = ", ".join(f'"{_word(name)}"' for name in row)
        marks = ", ".join("?" * len(row))
        self._connection.execute(
            f'INSERT OR REPLACE INTO "{table}"({columns}) VALUES({marks})',
            [_stored(value) for value in row.values()],
        )
        self._rows += 1

    def _take_event(self, value: dict[str, Any], number: int) -> None:
        seq, scope_no, kind, actor, at, payload_hash, previous = value["event"]
        row = (seq, scope_no, kind, actor, at, bytes.fromhex(payload_hash), bytes.fromhex(previous))
        if row[6] != self._previous or seq != self._events + 1:
            raise StartupError(f"line {number}: event {seq} does not follow the one before it")
        self._connection.execute(_EVENT, row)
        if value["salt"] is not None:
            salt, data = bytes.fromhex(value["salt"]), "\n".join(value["lines"]).encode()
            if event_payloads.StoredPayload(salt, data).hash != row[5]:
                raise StartupError(f"line {number}: event {seq} has another payload than recorded")
            self._connection.execute(_PAYLOAD, (seq, salt, data))
        self._previous = event_hash(row)
        self._events += 1

    def _ended(self, end: dict[str, Any], number: int) -> Moved:
        found = {"events": self._events, "rows": self._rows, "sha256": self._digest.hexdigest()}
        if end != found:
            raise StartupError(
                f"line {number}: the export was changed or lines are missing"
                f" ({self._events} events, {self._rows} rows); nothing was imported"
            )
        return Moved(self._events, self._rows)


def _parsed(data: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as exc:
        raise StartupError(
            f"line {number} of the export is torn or no JSON ({exc}); nothing was imported"
        ) from exc
    if not isinstance(value, dict) or not data.endswith(b"\n"):
        raise StartupError(f"line {number} of the export is torn; nothing was imported")
    return value


def _word(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no column")
    return name
