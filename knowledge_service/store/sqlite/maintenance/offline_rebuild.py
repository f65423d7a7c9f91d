"""Rebuilds a file from its log, or verifies it, while no process serves it.

Both lock the file, so that a running service is never disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from knowledge_service import clock as clocks
from knowledge_service.errors import StartupError
from knowledge_service.event_log.log_verification import Report, verify_log
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.maintenance import backup_and_restore, file_verification
from knowledge_service.store.sqlite.upgrade import migrate


@dataclass(frozen=True)
class Rebuilt:
    """The number of replayed events, and the tables that the replay changed."""

    events: int
    changed: tuple[str, ...]


def rebuild(path: Path, clock: clocks.Clock = clocks.now) -> Rebuilt:
    """Rebuild every projection from the log, in one transaction.

    Raises:
        FileLocked: a process serves the file.
        SchemaTooNew: a newer version wrote it.
        StartupError: it cannot be opened or read, or its log is not what was recorded.
    """
    with _owned(path) as db:
        problems = verify_log(SqliteEventTable(db)).problems
        if problems:
            raise StartupError(
                f"the log of {path} does not verify: {'; '.join(problems[:5])};"
                " nothing was changed; restore a copy"
            )
        migrate.migrate(db, clock)
        old_fingerprint = projection_rebuild.fingerprint(db)
        count = projection_rebuild.rebuild(db)
        new_fingerprint = projection_rebuild.fingerprint(db)
    return Rebuilt(
        count,
        tuple(
            sorted(
                name for name in new_fingerprint if new_fingerprint[name] != old_fingerprint[name]
            )
        ),
    )


def verify(path: Path) -> Report:
    """Verify the log's hash chain and the database's integrity; writes nothing.

    Raises:
        FileLocked: a process serves the file.
        StartupError: it cannot be opened or read.
    """
    with _owned(path) as db:
        return file_verification.verify(db)


@contextmanager
def _owned(path: Path) -> Iterator[apsw.Connection]:
    lock = connection.lock(path)
    try:
        backup_and_restore.require_database(path)
        db = connection.open_writer(path)
        try:
            yield db
        except connection.FAILURES as exc:
            raise connection.damaged_error(path, exc) from exc
        finally:
            connection.close_connection(db)
    finally:
        lock.close()
