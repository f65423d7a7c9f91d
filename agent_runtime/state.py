"""The state of a cell with a mind: its tasks and conversations, in one SQLite file.

In mode Task it has one task, and is used only if calls of tools wait for a person.

A message and its task are stored in one transaction, so a message opens one task at most. A damaged
file is put aside: the cell continues without its state, and `is_complete` is False from then on.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_runtime import approval_rows, sqlite_file
from agent_runtime.journal import ToolCallRecord
from agent_runtime.tickets import Caller
from kais.approvals import CallApproval

RETENTION_S: Final = 7 * 24 * 3600
"""How long tasks in a final state are kept."""
_DAMAGED: Final = ".damaged"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS conversation (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    context TEXT NOT NULL,
    summary TEXT NOT NULL DEFAULT '',
    summary_end INTEGER NOT NULL DEFAULT 1,
    UNIQUE (owner, context)
) STRICT;
CREATE TABLE IF NOT EXISTS message (
    conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (conversation, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS task (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    content_hash TEXT NOT NULL,
    caller TEXT NOT NULL,
    start INTEGER,
    is_final INTEGER NOT NULL,
    updated_ns INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS task_owner ON task (owner, updated_ns DESC, id DESC);
CREATE TABLE IF NOT EXISTS tool_call (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    tool TEXT NOT NULL,
    result TEXT,
    is_failed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS peer_call (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    cell TEXT NOT NULL,
    usage TEXT NOT NULL,
    PRIMARY KEY (task, message)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS peer_approval (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    calls TEXT NOT NULL,
    PRIMARY KEY (task, message)
) STRICT, WITHOUT ROWID;
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    """A stored task: `body` is its serialized form, `updated_ns` the time of its last change."""

    id: str
    owner: str
    context: str
    content_hash: str
    caller: Caller
    is_final: bool
    updated_ns: int
    body: bytes


class State:
    """The tasks and conversations of one cell; the methods are called from one thread."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it.

        Raises:
            AgentError: It cannot be written.
        """
        self._path = path
        aside = path.with_name(path.name + _DAMAGED)
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not _is_intact(path):
                _log.error("%s is damaged and was put aside; its tasks are lost", path)
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
                path.replace(aside)
            self._connection = sqlite_file.open_file(path, _SCHEMA + approval_rows.SCHEMA)
            _add_missing_column(self._connection)
        self.is_complete = not aside.exists()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add_task(self, row: TaskRow) -> None:
        """Store a new task, and drop what is older than the retention."""
        with self._transaction():
            self._purge(row.updated_ns - RETENTION_S * 1_000_000_000)
            self._connection.execute(
                "INSERT INTO conversation (owner, context) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (row.owner, row.context),
            )
            self._connection.execute(
                "INSERT INTO task (id, owner, conversation, content_hash, caller, is_final,"
                " updated_ns, body) SELECT ?, ?, id, ?, ?, ?, ?, ? FROM conversation"
                " WHERE owner = ? AND context = ?",
                (
                    row.id,
                    row.owner,
                    row.content_hash,
                    json.dumps(row.caller.dump()),
                    row.is_final,
                    row.updated_ns,
                    row.body,
                    row.owner,
                    row.context,
                ),
            )

    def save_task(self, task: str, body: bytes, *, is_final: bool, updated_ns: int) -> None:
        """Replace the body of a task."""
        with self._errors():
            self._connection.execute(
                "UPDATE task SET body = ?, is_final = ?, updated_ns = ? WHERE id = ?",
                (body, is_final, updated_ns, task),
            )

    def task(self, task: str, owner: str) -> TaskRow | None:
        """Return a task of an owner."""
        rows = self._rows("task.id = ? AND task.owner = ?", (task, owner))
        return rows[0] if rows else None

    def tasks(self, owner: str) -> list[TaskRow]:
        """Return the tasks of an owner, latest first."""
        return self._rows("task.owner = ?", (owner,))

    def open_tasks(self) -> list[TaskRow]:
        """Return all tasks in no final state, in the order in which their messages came."""
        return self._rows("NOT task.is_final", (), order="task.rowid")

    def delete_task(self, task: str, owner: str) -> None:
        """Delete a task of an owner."""
        with self._errors():
            self._connection.execute("DELETE FROM task WHERE id = ? AND owner = ?", (task, owner))

    def journal(self, task: str) -> SqliteJournal:
        """Return the journal of a task; the first call stores where its conversation begins."""
        with self._transaction():
            row, conversation, start = self._connection.execute(
                "SELECT rowid, conversation, start FROM task WHERE id = ?", (task,)
            ).fetchone()
            if start is None:
                (start,) = self._connection.execute(
                    "SELECT count(*) FROM message WHERE conversation = ?", (conversation,)
                ).fetchone()
                self._connection.execute("UPDATE task SET start = ? WHERE id = ?", (start, task))
            (end,) = self._connection.execute(
                "SELECT min(start) FROM task WHERE conversation = ? AND (start, rowid) > (?, ?)",
                (conversation, start, row),
            ).fetchone()
        return SqliteJournal(self, task, conversation, start=start, end=end)

    def save_messages(self, conversation: int, messages: Sequence[bytes], *, position: int) -> None:
        """Store messages that begin at a position of a conversation, all or none."""
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?)",
                [(conversation, place, body) for place, body in enumerate(messages, position)],
            )

    def save_peer_usages(self, task: str, message: str, usages: Mapping[str, str]) -> None:
        """Store what cells have used for a message; replaces what was stored for it."""
        with self._transaction():
            self._connection.execute(
                "DELETE FROM peer_call WHERE task = ? AND message >= ? AND message < ?",
                (task, f"{message}/", f"{message}0"),  # 0 follows the slash
            )
            self._connection.executemany(
                "INSERT INTO peer_call VALUES (?, ?, ?, ?)",
                [(task, f"{message}/{cell}", cell, usage) for cell, usage in usages.items()],
            )

    def peer_usages(self, task: str) -> list[tuple[str, str]]:
        """Return the cells that a task has asked, each with a usage."""
        rows = self.execute("SELECT cell, usage FROM peer_call WHERE task = ?", (task,))
        return [(str(cell), str(usage)) for cell, usage in rows]

    def add_approval(self, task: str, approval: CallApproval) -> None:
        """Store a call that waits for a person."""
        with self._errors():
            approval_rows.add(self._connection, task, approval)

    def end_approval(self, decided: CallApproval) -> None:
        """Store how a call was decided; the first decision counts."""
        with self._errors():
            approval_rows.end(self._connection, decided)

    def approval(self, call: str) -> CallApproval | None:
        """Return what is stored about a call that needs an approval."""
        with self._errors():
            return approval_rows.find(self._connection, call)

    def approvals(self, task: str) -> list[CallApproval]:
        """Return the calls of a task that need an approval, oldest first."""
        with self._errors():
            return approval_rows.calls_of(self._connection, task)

    def save_peer_approvals(self, task: str, message: str, calls: Sequence[CallApproval]) -> None:
        """Store the calls of peers that need an approval; replaces those of the same message."""
        self.execute(
            "INSERT INTO peer_approval VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET calls = excluded.calls",
            (task, message, json.dumps([call.dump() for call in calls])),
        )

    def peer_approvals(self, task: str) -> list[CallApproval]:
        """Return the calls that need an approval, of the peers that a task has asked."""
        rows = self.execute("SELECT calls FROM peer_approval WHERE task = ?", (task,))
        return [CallApproval.load(record) for (calls,) in rows for record in json.loads(str(calls))]

    def execute(self, statement: str, values: Sequence[object]) -> list[tuple[object, ...]]:
        """Run one statement, and return its rows."""
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    def _rows(
        self,
        condition: str,
        values: Sequence[object],
        *,
        order: str = "updated_ns DESC, task.id DESC",
    ) -> list[TaskRow]:
        with self._errors():
            rows = self._connection.execute(
                "SELECT task.id, task.owner, context, content_hash, caller, is_final, updated_ns,"  # noqa: S608 - conditions and orders are constants
                " body FROM task JOIN conversation ON conversation.id = conversation"
                f" WHERE {condition} ORDER BY {order}",
                values,
            ).fetchall()
        return [
            TaskRow(
                id=row[0],
                owner=row[1],
                context=row[2],
                content_hash=row[3],
                caller=Caller.load(json.loads(row[4])),
                is_final=bool(row[5]),
                updated_ns=row[6],
                body=row[7],
            )
            for row in rows
        ]

    def _purge(self, before_ns: int) -> None:
        self._connection.execute("DELETE FROM task WHERE is_final AND updated_ns < ?", (before_ns,))
        self._connection.execute(
            "DELETE FROM conversation WHERE id NOT IN (SELECT conversation FROM task)"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors(), sqlite_file.transaction(self._connection):
            yield

    def _errors(self) -> AbstractContextManager[None]:
        return sqlite_file.mapped_errors(f"the state of the cell in {self._path}")


class SqliteJournal:
    """The journal of one task."""

    def __init__(
        self, state: State, task: str, conversation: int, *, start: int, end: int | None
    ) -> None:
        self.task = task
        self.start = start
        self.end = end
        self._state = state
        self._conversation = conversation

    def messages(self) -> list[bytes]:
        """Return the stored messages of the conversation, oldest first."""
        rows = self._state.execute(
            "SELECT body FROM message WHERE conversation = ? ORDER BY position",
            (self._conversation,),
        )
        return [bytes(body) for (body,) in rows if isinstance(body, bytes)]

    def append(self, messages: Sequence[bytes], *, position: int) -> None:
        """Store messages that begin at a position of the conversation, all or none."""
        self._state.save_messages(self._conversation, messages, position=position)

    def memory(self) -> tuple[str, int]:
        """Return the summary of older messages, and the position of the first one after them."""
        [(summary, end)] = self._state.execute(
            "SELECT summary, summary_end FROM conversation WHERE id = ?", (self._conversation,)
        )
        return str(summary), int(str(end))

    def save_memory(self, summary: str, start: int) -> None:
        """Store a summary."""
        self._state.execute(
            "UPDATE conversation SET summary = ?, summary_end = ? WHERE id = ?",
            (summary, start, self._conversation),
        )

    def tool_call(self, key: str) -> ToolCallRecord | None:
        """Return what is stored about a tool call."""
        rows = self._state.execute(
            "SELECT result, is_failed FROM tool_call WHERE task = ? AND key = ?", (self.task, key)
        )
        if not rows:
            return None
        result, is_failed = rows[0]
        return ToolCallRecord(None if result is None else str(result), bool(is_failed))

    def open_tool_call(self, key: str, tool: str) -> None:
        """Store the intent of a tool call."""
        self._state.execute(
            "INSERT INTO tool_call (task, key, tool) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (self.task, key, tool),
        )

    def close_tool_call(self, key: str, result: str, *, is_failed: bool = False) -> None:
        """Store the result of a tool call, or how it failed."""
        self._state.execute(
            "UPDATE tool_call SET result = ?, is_failed = ? WHERE task = ? AND key = ?",
            (result, is_failed, self.task, key),
        )


def _add_missing_column(connection: sqlite3.Connection) -> None:
    """Add the column that files of earlier versions lack."""
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(tool_call)")]
    if "is_failed" not in columns:
        connection.execute("ALTER TABLE tool_call ADD COLUMN is_failed INTEGER NOT NULL DEFAULT 0")


def _is_intact(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path, timeout=sqlite_file.BUSY_S)) as connection:
            rows = connection.execute("PRAGMA quick_check").fetchall()
    except sqlite3.DatabaseError as exc:
        if exc.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return False
        raise
    return bool(rows == [("ok",)])
