"""Opens the SQLite files of a cell, and runs transactions in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_runtime.errors import AgentError
from kais.agent_results import FailureClass

BUSY_S: Final = 10
"""How long a statement waits for another process that writes."""


def open_file(path: Path, schema: str) -> sqlite3.Connection:
    """Open the file, or create it with its folder and the schema; each commit is durable.

    Raises:
        OSError: The folder cannot be created.
        sqlite3.Error: The file is damaged or cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(schema)
    return connection


@contextmanager
def mapped_errors(file: str, *, consequence: str = "") -> Iterator[None]:
    """Raise a failure of the block as AgentError; `file` describes the file in its message.

    Raises:
        AgentError: The file is damaged, full or cannot be read or written.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise AgentError(
            FailureClass.INTERRUPTED, f"{file} cannot be used: {exc}{consequence}"
        ) from exc


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in one transaction; other processes wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
