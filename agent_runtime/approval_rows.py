"""The table of the tool calls that need an approval, in the SQLite file of a cell.

The runtime writes it, and in mode Task the command of the operator too.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from kais.approvals import CallApproval

STATE_FILE: Final = "tasks.db"
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS approval (
    call TEXT PRIMARY KEY,
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    outcome TEXT,
    decided_by TEXT,
    decided_at TEXT,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS approval_task ON approval (task, requested_at, call);
"""
_SELECT: Final = (
    "SELECT call, tool, arguments, sha256, requested_at, expires_at, outcome, decided_by,"
    " decided_at, reason FROM approval"
)
_SELECT_CALL: Final = f"{_SELECT} WHERE call = ?"
_SELECT_TASK: Final = f"{_SELECT} WHERE task = ? ORDER BY requested_at, call"
_SELECT_ALL: Final = f"{_SELECT} ORDER BY requested_at, call"
_SELECT_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'approval'"
_INSERT: Final = (
    "INSERT INTO approval (call, task, tool, arguments, sha256, requested_at, expires_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_END: Final = (
    "UPDATE approval SET outcome = ?, decided_by = ?, decided_at = ?, reason = ?"
    " WHERE call = ? AND outcome IS NULL"
)


def add(connection: sqlite3.Connection, task: str, approval: CallApproval) -> None:
    """Store a call that waits for a person."""
    fields = (approval.tool, approval.arguments, approval.sha256)
    times = (approval.requested_at, approval.expires_at)
    connection.execute(_INSERT, (approval.call, task, *fields, *times))


def end(connection: sqlite3.Connection, decided: CallApproval) -> None:
    """Store how a call was decided; the first decision counts."""
    connection.execute(
        _END, (decided.outcome, decided.by, decided.decided_at, decided.reason, decided.call)
    )


def find(connection: sqlite3.Connection, call: str) -> CallApproval | None:
    """Return what is stored about a call."""
    row = connection.execute(_SELECT_CALL, (call,)).fetchone()
    return _approval(row) if row is not None else None


def exists(connection: sqlite3.Connection) -> bool:
    """Whether the runtime has created the table; it creates the file first."""
    return connection.execute(_SELECT_TABLE).fetchone() is not None


def calls_of(connection: sqlite3.Connection, task: str) -> list[CallApproval]:
    """Return the calls of a task, oldest first."""
    return [_approval(row) for row in connection.execute(_SELECT_TASK, (task,))]


def all_calls(connection: sqlite3.Connection) -> list[CallApproval]:
    """Return the calls of all tasks, oldest first."""
    return [_approval(row) for row in connection.execute(_SELECT_ALL)]


def _approval(row: tuple[Any, ...]) -> CallApproval:
    call, tool, arguments, sha256, requested_at, expires_at, outcome, by, at, reason = row
    return CallApproval(
        call=call,
        tool=tool,
        arguments=arguments,
        sha256=sha256,
        requested_at=requested_at,
        expires_at=expires_at,
        outcome=outcome,
        by=by,
        decided_at=at,
        reason=reason,
    )
