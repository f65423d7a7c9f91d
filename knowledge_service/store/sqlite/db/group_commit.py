"""One commit of many jobs: runs them in order, indexes their facts together, and commits.

A failed job rolls back only itself. An error of the disk rolls back the whole commit.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import apsw

from knowledge_service import uuid7
from knowledge_service.clock import Clock
from knowledge_service.errors import StoreUnavailable
from knowledge_service.event_log import times
from knowledge_service.event_log.hash_chain import ChainHead, read_head
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import connection as connections
from knowledge_service.store.sqlite.db.index_changes import IndexChanges
from knowledge_service.store.sqlite.db.job_results import JobFuture, JobResult
from knowledge_service.store.sqlite.db.transaction import BatchableJob, Transaction
from knowledge_service.store.sqlite.db.write_health import WriteHealth
from knowledge_service.store.sqlite.event_table import SqliteEventTable
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.uuid7 import Uuid7Generator

# Pages of facts and of links are ordered by these ids.
_LAST_ID = """SELECT max(id) FROM (SELECT max(id) AS id FROM fact WHERE id BETWEEN ?1 AND ?2
  UNION ALL SELECT max(id) FROM link WHERE id BETWEEN ?1 AND ?2)"""


class Job(NamedTuple):
    """A write; its caller, if one waits, gets the result through the future."""

    operation: Callable[[Transaction], Any]
    future: JobFuture | None


class _Return(NamedTuple):
    """The result of an operation, or the exception that ended it."""

    value: Any
    error: BaseException | None


class GroupCommit:
    """Commits groups of jobs through the writing connection; for the writer thread only."""

    def __init__(
        self, connection: apsw.Connection, clock: Clock, health: WriteHealth,
        *, undeclared_facts: int,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._clock = clock
        self._health = health
        self._undeclared_facts = undeclared_facts
        self._hash_index = HashIndexTable(connection)
        self.chain_head = read_head(SqliteEventTable(connection))
        """The end of the hash chain after the last commit."""
        self._ids = Uuid7Generator(_last_id(connection, times.from_us(self.chain_head.at)))
        self.scopes_version = 0
        """Changes when scopes or principals change."""
        self.erasure_version = 0
        """Changes with each erasure; odd while one is being committed."""
        self.erased_at_s = -math.inf
        """When text was last erased, or hidden with its scope, by `time.monotonic`."""
        self.on_erased: Callable[[int, ErasedDocuments], None] = lambda _number, _blanked: None
        """Called after a commit that erased text, before its version can be read."""
        self.on_version: Callable[[int], None] = lambda _: None
        """Called with each new version: before the commit of an erasure, and after it."""

    def commit(self, jobs: Sequence[Job]) -> tuple[list[JobResult], bool]:
        """Run and commit jobs; return the results for callers, and whether text was erased.

        Call `roll_back` after any exception, and `end_erasure` in each case.
        """
        results: list[JobResult] = []
        head, changes = self.chain_head, IndexChanges()
        self._connection.execute("BEGIN IMMEDIATE")
        pending_jobs = deque(jobs)
        while pending_jobs:
            head, returns = self._run_batch(pending_jobs, head, changes)
            if not returns:
                head, single = self._run_job(pending_jobs[0], head, changes)
                returns = [single]
            for value, error in returns:
                job = pending_jobs.popleft()
                if job.future:
                    results.append(JobResult(job.future, value, error))
        if changes.has_erasures:
            self._set_erasure_version(self.erasure_version + 1)
        blanked = changes.write(self._connection)
        self._hash_index.write()
        self._end_transaction()
        self.chain_head = head
        self._hash_index.commit()
        self.scopes_version += changes.changes_scopes
        if changes.has_erasures or changes.changes_scopes:
            self.erased_at_s = time.monotonic()
        if changes.has_erasures:
            self.on_erased(self.erasure_version + 1, blanked)
        return results, changes.has_erasures

    def roll_back(self) -> None:
        """Undo a commit that failed."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except connections.ENVIRONMENTAL as exc:
            self._health.fatal_error = connections.unavailable_error(exc)
        self._hash_index.forget()

    def end_erasure(self) -> None:
        """Make the erasure version even again, so that caches may advance to it."""
        if self.erasure_version % 2:
            self._set_erasure_version(self.erasure_version + 1)

    def _set_erasure_version(self, version: int) -> None:
        self.erasure_version = version
        self.on_version(version)

    def _run_batch(
        self, pending_jobs: deque[Job], head: ChainHead, changes: IndexChanges
    ) -> tuple[ChainHead, list[_Return]]:
        """Run the first jobs with fewer statements, if they can be merged.

        An empty list of results means that the first job must run alone.
        """
        operation = pending_jobs[0].operation
        if not isinstance(operation, BatchableJob):
            return head, []
        kind = type(operation)
        first = itertools.islice(pending_jobs, operation.max_batch)
        operations = [
            job.operation
            for job in itertools.takewhile(lambda job: type(job.operation) is kind, first)
        ]
        if len(operations) == 1:
            return head, []
        merged = Job(partial(operation.run_batch, jobs=operations), None)
        head, (values, error) = self._run_job(merged, head, changes)
        return head, [] if error else [_Return(value, None) for value in values]

    def _run_job(
        self, job: Job, head: ChainHead, changes: IndexChanges
    ) -> tuple[ChainHead, _Return]:
        transaction = Transaction(
            self._connection, head, self._ids, self._clock(), self._hash_index,
            undeclared_facts=self._undeclared_facts,
        )  # fmt: skip
        mark = self._hash_index.savepoint()
        # The first job needs no savepoint: the whole transaction is rolled back. A savepoint costs
        # time.
        has_savepoint = changes.is_begun
        if has_savepoint:
            self._connection.execute("SAVEPOINT job")
        try:
            value = job.operation(transaction)
        except connections.ENVIRONMENTAL:
            raise
        except Exception as exc:  # noqa: BLE001 - the caller that waits for the job gets it
            back = "ROLLBACK TO job; RELEASE job" if has_savepoint else "ROLLBACK; BEGIN IMMEDIATE"
            self._connection.execute(back)
            self._hash_index.rollback(mark)
            return head, _Return(None, exc)
        if has_savepoint:
            self._connection.execute("RELEASE job")
        changes.add(transaction)
        return transaction.head, _Return(value, None)

    def _end_transaction(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except connections.ENVIRONMENTAL as exc:
            if connections.is_transient(exc):
                raise
            self._health.fatal_error = StoreUnavailable(
                f"a commit failed ({exc}); restart the service after the disk is repaired"
            )
            raise self._health.fatal_error from exc


def _last_id(connection: apsw.Connection, moment: datetime) -> str | None:
    """Return the last id of the time of the last event; earlier ids are lower than all new ones."""
    rows: Any = connection.execute(_LAST_ID, uuid7.id_range(moment)).fetchall()
    last_id: str | None = rows[0][0]
    return last_id
