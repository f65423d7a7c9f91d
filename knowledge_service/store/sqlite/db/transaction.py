"""The transaction that a write job gets: SQL, time, ids and events.

Every change is recorded as an event. `record` appends the event and applies it to the projections,
so that a replay of the log reproduces the tables.
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
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.store.sqlite.projections.trigram_index import TrigramChanges
from knowledge_service.uuid7 import Uuid7Generator

_SCOPE_OR_PRINCIPAL_EVENTS = ("scope.", "realm.", "principal.")


class Transaction:
    """The context of a writer's job. `at_us` never decreases, even if the clock does."""

    def __init__(
        self, connection: apsw.Connection, head: ChainHead, ids: Uuid7Generator, now: datetime,
        hash_index: HashIndexTable, *, undeclared_facts: int = UNDECLARED_FACTS,
    ) -> None:  # fmt: skip
        self.connection = connection
        self._ids = ids
        self.hash_index = hash_index
        self.at_us = max(head.at, times.to_us(now))
        self.now = times.from_us(self.at_us)
        """The time of this write."""
        self._appender = EventAppender(SqliteEventTable(connection), head, self.at_us)
        self.texts_to_index: dict[int, list[tuple[int, posting_table.Text]]] = {}
        """Texts of new facts by scope; `IndexChanges` writes these four before the commit."""
        self.documents_to_erase: list[posting_table.Erased] = []
        self.scopes_to_clear: list[int] = []
        self.trigrams = TrigramChanges()
        self.changes_scopes = False
        """Whether an event changed scopes or principals, so that caches of them are stale."""
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

    def fetch_first(self, sql: str, bindings: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if there is none."""
        return next(iter(self.connection.execute(sql, bindings)), None)

    def fetch_all(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return every row of a query."""
        return self.connection.execute(sql, bindings).fetchall()

    def changes(self) -> int:
        """Return the number of rows that the last statement changed."""
        return int(self.connection.changes())

    def index(self, scope_no: int, texts: Iterable[tuple[int, posting_table.Text]]) -> None:
        """Index the texts of new facts before the commit, together with those of other writes."""
        self.texts_to_index.setdefault(scope_no, []).extend(texts)

    def unindex(self, scope_no: int, fact_no: int, text: posting_table.Text) -> None:
        """Remove a fact that was indexed by this text from the index before the commit."""
        self.documents_to_erase.append(posting_table.Erased(scope_no, fact_no, text))

    def unindex_scope(self, scope_no: int) -> None:
        """Remove all facts of a scope from the index before the commit."""
        self.scopes_to_clear.append(scope_no)

    def new_id(self) -> str:
        """Return a new id, which sorts after all earlier ones."""
        return self._ids.generate(self.now)

    def new_ids(self, count: int) -> list[str]:
        """Return `count` new ids in ascending order."""
        return self._ids.generate_batch(self.now, count)

    def record(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event:
        """Append an event and apply it to the projections."""
        event = self.append(kind, scope_no=scope_no, actor=actor, parts=parts)
        projections.apply(self.connection, event)
        return event

    def record_all(self, kind: str, events: Sequence[PendingEvent]) -> None:
        """Append and apply events of one type, with one statement for each table of the log."""
        for event in self.append_all(kind, events):
            projections.apply(self.connection, event)

    def append(
        self, kind: str, *, scope_no: int | None, actor: str, parts: Sequence[Mapping[str, Any]]
    ) -> Event:
        """Append an event without applying it; its parts can be erased separately."""
        return self.append_all(kind, [PendingEvent(scope_no, actor, parts)])[0]

    def append_all(self, kind: str, events: Sequence[PendingEvent]) -> list[Event]:
        """Append events of one type like `append`, with one statement for each table."""
        self.changes_scopes = self.changes_scopes or kind.startswith(_SCOPE_OR_PRINCIPAL_EVENTS)
        return self._appender.append(kind, events)

    def append_encoded(self, kind: str, events: Sequence[EncodedEvent]) -> list[int]:
        """Append events with parts that are JSON already; return their numbers."""
        self.changes_scopes = self.changes_scopes or kind.startswith(_SCOPE_OR_PRINCIPAL_EVENTS)
        return self._appender.append_encoded(kind, events)


class BatchableJob(ABC):
    """A job that can run as a batch with others of its type, at less cost than alone.

    `max_batch` bounds the batch, because the jobs after one that must run alone are examined again.
    """

    max_batch = 32

    @abstractmethod
    def __call__(self, tx: Transaction) -> Any:
        """Run the job alone."""

    @abstractmethod
    def run_batch(self, tx: Transaction, jobs: Sequence[Any]) -> list[Any]:
        """Run the leading jobs as a batch, with the same effect as in sequence; return the results.

        `jobs` begins with this job. The results end before the first job that must run alone.
        """
