"""Exports and imports of a file: `event_log.log_export` over its tables."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import apsw

from knowledge_service import clock as clocks
from knowledge_service.errors import StartupError
from knowledge_service.event_log import event_payloads
from knowledge_service.event_log.log_export import ExportCounts, read_export, write_export
from knowledge_service.store.sqlite import projection_rebuild, projections
from knowledge_service.store.sqlite.db import connection as files
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.maintenance import backup_and_restore
from knowledge_service.store.sqlite.projections import outcome_totals
from knowledge_service.store.sqlite.upgrade import migrate

_LOG = frozenset({"event", "payload"})
# The indexes are rebuilt from the log, idempotency keys expire, migrations belong to the file, and
# triggers sum the totals of outcomes again.
_EXCLUDED_TABLES = frozenset(
    {"posting", "equal", "fact_facet", "idempotency", "migration", *outcome_totals.TABLES}
)
_TABLES = """SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
  AND name <> 'trigram' AND name NOT LIKE 'trigram|_%' ESCAPE '|'"""
_SCHEMA = "SELECT max(number) FROM migration"
# Errors from events that no version of this service has recorded.
_UNFIT: tuple[type[Exception], ...] = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error,
    event_payloads.UnreadablePayload,
)  # fmt: skip
_KEY = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"


def export(path: Path, stream: BinaryIO) -> ExportCounts:
    """Write a database's export; a service may use the database meanwhile.

    Raises:
        StartupError: the database cannot be read.
        OSError: the stream cannot be written.
    """
    backup_and_restore.require_database(path)
    try:
        reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            reading.set_busy_timeout(5000)
            return write_tables(reading, stream)
        finally:
            reading.close()
    except apsw.Error as exc:
        raise files.damaged_error(path, exc) from exc


def import_export(
    path: Path, lines: Iterable[bytes], clock: clocks.Clock = clocks.now
) -> ExportCounts:
    """Create a database from an export.

    Raises:
        FileLocked: a process serves the database.
        StartupError: as for `read`, or the disk rejects the write.
    """
    lock = files.lock(path)
    try:
        writing = files.open_writer(path)
        try:
            migrate.migrate(writing, clock)
            return read(writing, lines)
        except apsw.Error as exc:
            description = files.error_text(exc)
            raise StartupError(
                f"cannot import into {path} ({description}); nothing was imported"
            ) from exc
        finally:
            files.close_connection(writing)
    finally:
        lock.close()


def write_tables(connection: apsw.Connection, stream: BinaryIO) -> ExportCounts:
    """Write an export of the store from one snapshot; others may write meanwhile."""
    connection.execute("BEGIN")
    try:
        return write_export(SqliteEventTable(connection), TablesBesideLog(connection), stream)
    finally:
        connection.execute("COMMIT")


def read(connection: apsw.Connection, lines: Iterable[bytes]) -> ExportCounts:
    """Import an export into an empty store, completely or not at all.

    Raises:
        StartupError: the store is not empty, or the export is truncated, changed or of a newer
            schema, and the message names the line; or an event cannot be applied.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("PRAGMA defer_foreign_keys=ON")
        tables = TablesBesideLog(connection)
        counts = read_export(SqliteEventTable(connection), tables, lines)
        _apply(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends the transaction itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    return counts


def _apply(connection: apsw.Connection) -> None:
    """Fill the other tables from the imported log.

    Raises:
        StartupError: an event has another content than this service records.
    """
    try:
        projection_rebuild.replay(connection)
        projection_rebuild.index_all(connection)
    except _UNFIT as exc:
        description = f"{type(exc).__name__}: {exc}".splitlines()[0]
        raise StartupError(
            f"an event of the export cannot be applied ({description}); nothing was imported;"
            " export the store again"
        ) from exc


class TablesBesideLog:
    """The tables that are neither the log nor filled by a replay: the `ImportedTables` port."""

    write_errors: tuple[type[Exception], ...] = (apsw.Error,)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        (schema,) = next(iter(connection.execute(_SCHEMA)))
        self.schema = int(str(schema))
        elsewhere = _LOG | _EXCLUDED_TABLES | set(projections.TABLES)
        names = [str(name) for (name,) in connection.execute(_TABLES)]
        self.names = sorted(name for name in names if name not in elsewhere)

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the rows, ordered by table and key."""
        for table in self.names:
            keys = self._connection.execute(_KEY, (table,)).fetchall()
            order = ", ".join(f'"{name}"' for (name,) in keys) or "rowid"
            cursor = self._connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}')
            for row in cursor:
                columns = [name for name, _ in cursor.get_description()]
                yield table, dict(zip(columns, row, strict=True))

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Store a row.

        Raises:
            ValueError: there is no such table or column.
        """
        if table not in self.names:
            raise ValueError(f"there is no table {table}")
        for name in row:
            if not name.isidentifier():
                raise ValueError(f"{name!r} is not a column")
        columns = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        self._connection.execute(
            f'INSERT OR REPLACE INTO "{table}"({columns}) VALUES({marks})', tuple(row.values())
        )
