"""One write: statements, the moment it happens at, ids, and what it adds to the event log.

What a write changes it says as an event; `record` appends it and applies it to the tables, so that
a replay of the log does exactly what the write did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from knowledge_service.domain.capacity import UNDECLARED_FACTS
from knowledge_service.event_log import times
from knowledge_service.event_log.events import EncodedEvent, Event, PendingEvent
from knowledge_service.event_log.hash_chain import ChainHead, EventAppender
from knowledge_service.store.sqlite import projections
from knowledge_service.store.sqlite.db import postings
from knowledge_service.store.sqlite.db.event_table import SqliteEventTable
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.uuid7 import Uuid7Generator

_MOVING = ("scope.", "realm.", "principal.")


class Transaction:
    """What a job of the writer works with. `at_us` never goes back, whatever the clock does."""

    def __init__(
        self, connection: apsw.Connection, head: ChainHead, ids: Uuid7Generator, now: datetime,
        equals: HashIndexTable, *, undeclared_facts: int = UNDECLARED_FACTS,
    ) -> None:  # fmt: skip
        self.connection = connection
        self._ids = ids
        self.equals = equals
        self.at_us = max(head.at, times.to_us(now))
        self.now = times.from_us(self.at_us)
        """The moment of this write."""
        self._appender = EventAppender(SqliteEventTable(connection), head, self.at_us)
        self.unindexed: dict[int, list[tuple[int, postings.Text]]] = {}
        self.erased: list[postings.Erased] = []
        self.emptied: list[int] = []
        self.moves_scopes = False
        self.undeclared_facts = undeclared_facts

    @property
    def head(self) -> ChainHead:
        """The end of the hash chain."""
        return self._appender.head

    def execute(self, sql: str, bindings: Sequence[Any] | Mapping[str, Any] = ()) -> apsw.Cursor:
        """Run a statement."""
        return self.connection.execute(sql, bindings)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row."""
        self.connection.executemany(sql, rows)

    def one(self, sql: str, bindings: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        return next(iter(self.connection.execute(sql, bindings)), None)

    def all(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return every row of a query."""
        return self.connection.execute(sql, bindings).fetchall()

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        return int(self.connection.changes())

    def index(self, scope_no: int, texts: Iterable[tuple[int, postings.Text]]) -> None:
        """Have the texts of new facts indexed before the commit, with those of other writes."""
        self.unindexed.setdefault(scope_no, []).extend(texts)

    def unindex(self, scope_no: int, fact_no: int, text: postings.Text) -> None:
        """Have a fact, indexed by this text, leave the index before the commit."""
        self.erased.append(postings.Erased(scope_no, fact_no, text))

    def unindex_scope(self, scope_no: int) -> None:
        """Have all facts of a scope leave the index before the commit."""
        self.emptied.append(scope_no)

    def new_id(self) -> str:
        """Return a new id, later than all before it."""
        return self._ids.generate(self.now)

    def new_ids(self, count: int) -> list[str]:
        """Return so many new ids, in their order."""
        return self._ids.generate_batch(self.now, count)

    def record(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event:
        """Append an event and do to the tables what it says."""
        event = self.append(kind, scope_no=scope_no, actor=actor, parts=parts)
        projections.apply(self.connection, event)
        return event

    def record_all(self, kind: str, events: Sequence[PendingEvent]) -> None:
        """Append events of a kind as `record` does, with one statement a table of the log."""
        for event in self.append_all(kind, events):
            projections.apply(self.connection, event)

    def append(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event:
        """Append an event whose projection the caller applies; each part can be erased alone."""
        return self.append_all(kind, [PendingEvent(scope_no, actor, parts)])[0]

    def append_all(self, kind: str, events: Sequence[PendingEvent]) -> list[Event]:
        """Append events of a kind as `append` does, with one statement a table."""
        self.moves_scopes = self.moves_scopes or kind.startswith(_MOVING)
        return self._appender.append(kind, events)

    def append_encoded(self, kind: str, events: Sequence[EncodedEvent]) -> list[int]:
        """Append events whose parts are JSON already; return their numbers."""
        self.moves_scopes = self.moves_scopes or kind.startswith(_MOVING)
        return self._appender.append_encoded(kind, events)


class BatchableJob(ABC):
    """A job that can be done together with others of its kind, for less than each alone."""

    @abstractmethod
    def __call__(self, tx: Transaction) -> Any:
        """Do it alone."""

    @abstractmethod
    def run_batch(self, tx: Transaction, jobs: Sequence[Any]) -> list[Any]:
        """Do some of these jobs, of which this is the first, as if one after the other.

        The results are those of the first ones; a job that must be alone ends the list.
        """
