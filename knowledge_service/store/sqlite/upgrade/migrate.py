"""Migrates a file to the newest schema: each migration in one transaction with its own record."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import apsw

from knowledge_service import migrations
from knowledge_service.clock import Clock
from knowledge_service.errors import SchemaTooNew, StartupError
from knowledge_service.event_log import times
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite.db.connection import TABLES
from knowledge_service.store.sqlite.projections import facet_index, hash_index_table, trigram_index
from knowledge_service.store.sqlite.upgrade import (
    equality_backfill,
    event_scope_backfill,
    log_backfill,
)

_RECORD = """CREATE TABLE IF NOT EXISTS migration(
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"""
_NEWEST = "SELECT coalesce(max(number), 0) FROM migration"
_APPLIED = "INSERT INTO migration(number, name, applied_at) VALUES(?, ?, ?)"
_IDENTITY = "INSERT OR IGNORE INTO meta(key, value) VALUES('store_id', ?)"


_AFTER_SCRIPT: Mapping[str, Callable[[apsw.Connection, Clock, Progress], None]] = {
    "m002_projections": log_backfill.backfill,
    "m008_equality": hash_index_table.fill,
    "m014_event_scopes": event_scope_backfill.fill,
    "m015_log_by_scope": event_scope_backfill.fill_old,
    "m019_substrings": trigram_index.fill,
    "m021_schema_equality": equality_backfill.fill,
    "m023_facets": facet_index.fill,
}
"""The work of a migration besides its script, in the same transaction."""


def check(
    connection: apsw.Connection,
    steps: tuple[tuple[int, str, str], ...] = migrations.SQLITE,
) -> None:
    """Check that this version or an older one wrote the file; writes nothing.

    Raises:
        StartupError: it is another database, or an empty one.
        SchemaTooNew: the file has a migration that this version does not know.
    """
    if "migration" not in {name for (name,) in connection.execute(TABLES)}:
        raise StartupError(
            f"{connection.filename} is not a database of kais-knowledge; name one with --db"
        )
    newest: Any = connection.execute(_NEWEST).fetchall()[0][0]
    newest_known = steps[-1][0]
    if newest > newest_known:
        raise SchemaTooNew(
            f"the database has schema {newest}, this version of kais-knowledge knows up to"
            f" {newest_known}; start a newer version or restore an older copy of the file"
        )


def migrate(
    connection: apsw.Connection,
    clock: Clock,
    steps: tuple[tuple[int, str, str], ...] = migrations.SQLITE,
    *,
    progress: Progress | None = None,
) -> None:
    """Apply the missing migrations, in order.

    Raises:
        SchemaTooNew: the file has a migration that this version does not know.
    """
    reporter = progress or Progress()
    connection.execute(_RECORD)
    check(connection, steps)
    newest: Any = connection.execute(_NEWEST).fetchall()[0][0]
    newest_known = steps[-1][0]
    # The steps of a new file are not reported: each takes some milliseconds.
    is_new = newest == 0
    with reporter.step("making a new database") if is_new else nullcontext():
        for number, name, script in steps:
            if number <= newest:
                continue
            step = f"migrating to schema {number} of {newest_known} ({name})"
            with nullcontext() if is_new else reporter.step(step), connection:
                connection.execute(script)
                if name in _AFTER_SCRIPT:
                    _AFTER_SCRIPT[name](connection, clock, reporter)
                connection.execute(_APPLIED, (number, name, times.to_us(clock())))
    connection.execute(_IDENTITY, (secrets.token_hex(8),))
