"""Verifies a whole file: the event log, and SQLite's own integrity check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import apsw

from knowledge_service.event_log.log_verification import MAX_PROBLEMS, Report, verify_log
from knowledge_service.store.sqlite.event_table import SqliteEventTable

_ROOTS = "SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0"
_TREE = re.compile(r"Tree (\d+)")


def verify(connection: apsw.Connection) -> Report:
    """Check the chain, every payload, and the database's own integrity.

    Damage of the file is reported with the other problems, so that the report is complete.
    """
    log = verify_log(SqliteEventTable(connection))
    problems = [*log.problems, *_integrity_problems(connection)]
    return Report(log.events, log.erased, tuple(problems[:MAX_PROBLEMS]), log.has_whole_log)


def _integrity_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield SQLite's findings, with names of tables instead of page numbers."""
    try:
        rows: Any = connection.execute("PRAGMA integrity_check(10)").fetchall()
        names = {str(page): str(name) for page, name in connection.execute(_ROOTS)}
    except apsw.CorruptError as exc:
        yield f"database: {exc}"
        return
    for (text,) in rows:
        if text != "ok":
            problem = _TREE.sub(lambda tree: names.get(tree[1], tree[0]), text)
            yield f"database: {problem}"
