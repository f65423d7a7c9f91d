"""The logs that the contract is asked of: SQLite's and one in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from knowledge_service import migrations
from knowledge_service.event_log.event_payloads import StoredPayload
from knowledge_service.event_log.events import Event, EventRow
from knowledge_service.event_log.fact_events import CHANGEABLE
from knowledge_service.event_log.hash_chain import read_head
from knowledge_service.event_log.log_verification import Report
from knowledge_service.event_log.store_ports import FactReferences, LogTable
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.maintenance import (
    exports,
    file_verification,
)
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.store.sqlite.repositories.stored_text_erasure import SqliteFactReferences
from knowledge_service.store.sqlite.upgrade import migrate
from knowledge_service.uuid7 import Uuid7Generator
from tests.fakes.clock import START
from tests.fakes.memory_event_log import MemoryEventLog, StoredFact

SCHEMA = migrations.SQLITE[-1][0]


class LogTransaction(Protocol):
    """One write."""

    table: LogTable
    references: FactReferences

    def record(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event: ...


class Log(Protocol):
    """A log with its projections; the last three are for tests."""

    table: LogTable

    def transaction(self, now: datetime) -> AbstractContextManager[LogTransaction]: ...
    def rebuild(self) -> int: ...
    def verify(self) -> Report: ...
    def export(self) -> bytes: ...
    def import_(self, lines: Iterable[bytes], now: datetime) -> None: ...
    def facts(self) -> dict[str, StoredFact]: ...
    def live_facts(self, scope_no: int) -> int: ...
    def overwrite(self, seq: int, row: EventRow | None) -> None: ...
    def put_payload(self, seq: int, payload: StoredPayload) -> None: ...
    def damage_facts(self) -> None: ...


class TestedMemoryLog(MemoryEventLog):
    """The log in memory, with what tests look at and damage."""

    def facts(self) -> dict[str, StoredFact]:
        return self.projections.facts

    def live_facts(self, scope_no: int) -> int:
        return self.projections.live[scope_no]

    def overwrite(self, seq: int, row: EventRow | None) -> None:
        del self.table.rows[seq]
        if row is not None:
            self.table.rows[seq] = row

    def put_payload(self, seq: int, payload: StoredPayload) -> None:
        self.table.payloads[seq] = payload

    def damage_facts(self) -> None:
        for fact in self.projections.facts.values():
            fact.columns["confidence"] = 0.123


class SqliteTransaction:
    """The log's part of a write."""

    def __init__(self, tx: Transaction) -> None:
        self.record = tx.record
        self.table = SqliteEventTable(tx.connection)
        self.references = SqliteFactReferences(tx)


class TestedSqliteLog:
    """SQLite's log in a file."""

    def __init__(self, path: Path) -> None:
        self.db = connection.open_writer(path)
        migrate.migrate(self.db, lambda: START)
        projection_rebuild.renew_index(self.db)
        self.table = SqliteEventTable(self.db)

    @contextmanager
    def transaction(self, now: datetime) -> Iterator[SqliteTransaction]:
        with self._write():
            head, equals = read_head(self.table), HashIndexTable(self.db)
            yield SqliteTransaction(Transaction(self.db, head, Uuid7Generator(), now, equals))

    @contextmanager
    def _write(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def rebuild(self) -> int:
        with self._write():
            return projection_rebuild.replay(self.db)

    def verify(self) -> Report:
        return file_verification.verify(self.db)

    def export(self) -> bytes:
        stream = io.BytesIO()
        exports.write_tables(self.db, stream)
        return stream.getvalue()

    def import_(self, lines: Iterable[bytes], _now: datetime) -> None:
        exports.read(self.db, lines)

    def facts(self) -> dict[str, StoredFact]:
        names = ", ".join(CHANGEABLE)
        rows: list[Any] = self.db.execute(
            f"SELECT id, fact_no, scope_no, content, version, {names} FROM fact"  # noqa: S608
        ).fetchall()
        return {
            fact_id: StoredFact(number, scope_no, content, _decoded(columns), version)
            for fact_id, number, scope_no, content, version, *columns in rows
        }

    def live_facts(self, scope_no: int) -> int:
        message = "SELECT live_facts FROM scope WHERE scope_no = ?"
        rows: list[Any] = self.db.execute(message, (scope_no,)).fetchall()
        return int(rows[0][0])

    def overwrite(self, seq: int, row: EventRow | None) -> None:
        self.db.execute("DELETE FROM event WHERE seq = ?", (seq,))
        if row is not None:
            self.db.execute("INSERT INTO event VALUES(?, ?, ?, ?, ?, ?, ?)", row)

    def put_payload(self, seq: int, payload: StoredPayload) -> None:
        row = (seq, payload.salt, payload.data)
        self.db.execute("INSERT OR REPLACE INTO payload(seq, salt, bytes) VALUES(?, ?, ?)", row)

    def damage_facts(self) -> None:
        self.db.execute("UPDATE fact SET confidence = 0.123")


def _decoded(columns: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(CHANGEABLE, columns, strict=True))
    return values | {name: json.loads(values[name]) for name in ("tags", "flags")}


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    if request.param == "memory":
        yield TestedMemoryLog(SCHEMA)
        return
    sqlite = TestedSqliteLog(tmp_path / "log.db")
    yield sqlite
    sqlite.db.close()


@pytest.fixture
def empty_logs(tmp_path: Path) -> Iterator[list[Log]]:
    """One empty log of each kind, to import into."""
    sqlite = TestedSqliteLog(tmp_path / "other.db")
    yield [TestedMemoryLog(SCHEMA), sqlite]
    sqlite.db.close()
