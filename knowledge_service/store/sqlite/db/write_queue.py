"""The single writer thread: runs jobs in order, many to a commit, and answers after the commit.

A failed job rolls back only itself. A commit that finds no room or no writable disk is rolled back,
and the next one may succeed. After any other failure, above all of fsync, the content of the disk
is unknown: nothing is retried, and the writer rejects everything until a restart. Callers in an
event loop are woken once per commit, with all answers of that commit.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import apsw

from knowledge_service.clock import Clock
from knowledge_service.domain.capacity import UNDECLARED_FACTS
from knowledge_service.errors import StoreDamaged, StoreUnavailable
from knowledge_service.event_log import times
from knowledge_service.event_log.hash_chain import ChainHead, read_head
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import completions, deferred_writes, wal_truncation
from knowledge_service.store.sqlite.db import connection as connections
from knowledge_service.store.sqlite.db.completions import Completion, Waiting
from knowledge_service.store.sqlite.db.deferred_writes import Deferred
from knowledge_service.store.sqlite.db.event_table import SqliteEventTable
from knowledge_service.store.sqlite.db.group_commit import GroupCommit
from knowledge_service.store.sqlite.db.transaction import BatchableJob, Transaction
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable
from knowledge_service.uuid7 import Uuid7Generator

_log = logging.getLogger(__name__)
T = TypeVar("T")
# A commit does not wait for further jobs: it takes what is queued, at most this many, so that no
# answer waits for long.
_MAX_JOBS_PER_COMMIT = 256
# The maximum length of the queue: some seconds of the writer's work.
_MAX_QUEUED = 2_048
# The maximum number of merged jobs; a job that must run alone has the rest examined again.
_MAX_BATCHED_JOBS = 32
_REFUSED: tuple[type[Exception], ...] = (StoreUnavailable, *connections.ENVIRONMENTAL)
# The number of deferred jobs (receipts without a run) in a commit that a caller waits for, and in
# one that no caller waits for yet.
_DEFERRED_PER_COMMIT, _DEFERRED_PER_IDLE_COMMIT = 8, 32
# The maximum wait for a commit; a client has given up by then.
_COMMIT_TIMEOUT_S = 20.0
# A disk that was full has room again with this many bytes: some of the largest facts and their
# index.
_MIN_FREE_BYTES = 1 << 20


class _Job(NamedTuple):
    operation: Callable[[Transaction], Any]
    future: Waiting | None


_WAKE_FOR_DEFERRED = _Job(lambda _: None, None)
"""Wakes the writer for work that no caller waits for."""
_WAL_IS_SHORT = _Job(lambda _: None, None)
"""Wakes the writer when little of the log is left to checkpoint, so that it can be truncated."""


class WriteQueue:
    """Owns the writing connection."""

    def __init__(
        self,
        connection: apsw.Connection,
        clock: Clock,
        file: connections.File,
        checkpointer: Checkpointer,
        *,
        undeclared_facts: int = UNDECLARED_FACTS,
    ) -> None:
        self._connection = connection
        self._checkpointer = checkpointer
        checkpointer.watch(connection)
        self._file = file
        self._write_error: StoreUnavailable | None = None
        self._clock = clock
        self._ids = Uuid7Generator()
        self._undeclared_facts = undeclared_facts
        self._scopes_version = 0
        self._erasure_version = 0
        self._wal_truncation = wal_truncation.WalTruncation(connection, checkpointer)
        checkpointer.on_short = lambda: self._queue.put(_WAL_IS_SHORT)
        self.on_erased: Callable[[int, ErasedDocuments], None] = lambda _number, _blanked: None
        """Called after a commit that erased, before its version can be read."""
        self._chain_head = read_head(SqliteEventTable(connection))
        self._hash_index = HashIndexTable(connection)
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.deferred: Deferred[_Job] = Deferred()
        """Jobs that no caller waits for."""
        self._is_wakeup_queued = False
        self._fatal_error: StoreUnavailable | None = None
        self._damage: StoreDamaged | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def fatal_error(self) -> StoreUnavailable | None:
        """The reason why nothing can be written any more; None as long as writes are possible."""
        return self._fatal_error

    def mark_damaged(self, damage: StoreDamaged) -> None:
        """Reject all further writes, because a restored copy would not have them."""
        if self._damage is None:
            _log.error("the database is damaged", extra={"fields": {"why": damage.detail}})
        self._damage = damage

    @property
    def write_error(self) -> StoreUnavailable | None:
        """The reason why the last writes failed; None once there is room again."""
        return self._write_error

    @property
    def latest_us(self) -> int:
        """Return the time of the last event; 0 in an empty log."""
        return self._chain_head.at

    @property
    def scopes_version(self) -> int:
        """Return a number that changes when scopes or principals change."""
        return self._scopes_version

    def now(self) -> datetime:
        """Return the time that a write would have now."""
        return max(self._clock(), times.from_us(self._chain_head.at))

    @property
    def erased_since_s(self) -> float | None:
        """Seconds that erased bytes have been in the write-ahead log; None if there are none."""
        return self._wal_truncation.due_for_s

    @property
    def erasure_version(self) -> int:
        """Return a number that changes with each erasure; odd while one is being committed."""
        return self._erasure_version

    def submit(
        self, operation: Callable[[Transaction], T], *, patience_s: float = _COMMIT_TIMEOUT_S
    ) -> T:
        """Run a job and return its result after the commit.

        Raises:
            StoreUnavailable: the write is not stored, or its outcome is unknown.
        """
        future: Future[Any] = Future()
        self._enqueue(_Job(operation, future))
        try:
            return cast("T", future.result(patience_s))
        except TimeoutError as exc:
            raise _no_commit(patience_s) from exc

    async def submit_async(self, operation: Callable[[Transaction], T]) -> T:
        """Run a job like `submit`, without blocking the event loop.

        Raises:
            StoreUnavailable: as for `submit`.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enqueue(_Job(operation, future))
        try:
            async with asyncio.timeout(_COMMIT_TIMEOUT_S):
                return cast("T", await future)
        except TimeoutError as exc:
            raise _no_commit(_COMMIT_TIMEOUT_S) from exc

    def _enqueue(self, job: _Job) -> None:
        self._raise_if_unusable()
        if self._queue.qsize() >= _MAX_QUEUED:
            raise StoreUnavailable(
                f"{_MAX_QUEUED} writes are queued; nothing of this one is stored, try again"
            )
        self._queue.put(job)

    def submit_later(self, operation: Callable[[Transaction], Any]) -> None:
        """Run a job soon, without reporting whether it was stored.

        Raises:
            StoreUnavailable: the job would be lost, because the last commit failed or the disk is
                too slow.
        """
        lost = self._fatal_error or self._damage or self._write_error
        if lost:
            raise lost
        self.deferred.append(_Job(operation, None))
        if not self._is_wakeup_queued:  # one wakeup for all of them, not one each
            self._is_wakeup_queued = True
            self._queue.put(_WAKE_FOR_DEFERRED)

    def close(self) -> None:
        """Finish the queued jobs and close the connection."""
        self._queue.put(None)
        self._thread.join()
        self._checkpointer.stop()
        self._connection.close()

    def _run(self) -> None:
        due: float | None = None
        open_ = True
        while open_:
            try:
                job = self._queue.get(timeout=self._idle_s(due))
            except queue.Empty:
                if due is None:
                    self._truncate_wal()
                    continue
                self._commit(self._take_deferred(_DEFERRED_PER_IDLE_COMMIT))
                due = time.monotonic() if self.deferred else None
                continue
            group, open_ = self._gather(job)
            urgent = [
                job for job in group if job is not _WAKE_FOR_DEFERRED and job is not _WAL_IS_SHORT
            ]
            if urgent:
                self._commit([*urgent, *self._take_deferred(_DEFERRED_PER_COMMIT)])
            elif _WAL_IS_SHORT in group:
                self._truncate_wal()
            if due is None and self.deferred:
                due = time.monotonic() + deferred_writes.DELAY_S
        while jobs := self._take_deferred(_MAX_JOBS_PER_COMMIT):
            self._commit(jobs)

    def _idle_s(self, due: float | None) -> float | None:
        """Return how long to wait for a job before other work is due; None for no limit."""
        if due is not None:
            return max(0.0, due - time.monotonic())
        return wal_truncation.AGAIN_IDLE_S if self._wal_truncation.is_due else None

    def _truncate_wal(self) -> None:
        if self._fatal_error is None and self._damage is None:
            self._wal_truncation.step(erases=False)

    def _take_deferred(self, minimum: int) -> list[_Job]:
        """Dequeue some deferred jobs."""
        self._is_wakeup_queued = False
        return self.deferred.take(minimum)

    def _gather(self, first: _Job | None) -> tuple[list[_Job], bool]:
        group: list[_Job] = []
        job = first
        while job is not None:
            group.append(job)
            if len(group) >= _MAX_JOBS_PER_COMMIT:
                return group, True
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _commit(self, jobs: list[_Job]) -> None:
        resolved: list[Completion] = []
        head, group = self._chain_head, GroupCommit()
        try:
            self._check_database_file()
            self._checkpointer.finish(self._connection)
            self._connection.execute("BEGIN IMMEDIATE")
            pending_jobs = deque(jobs)
            while pending_jobs:
                head, results = self._run_batch(pending_jobs, head, group)
                if not results:
                    head, *result = self._run_job(pending_jobs[0], head, group)
                    results = [tuple(result)]
                for result, error in results:
                    job = pending_jobs.popleft()
                    if job.future:
                        resolved.append(Completion(job.future, result, error))
            self._erasure_version += group.erases
            blanked = group.index(self._connection)
            self._hash_index.write()
            self._end()
            self._chain_head = head
            self._publish_commit(group, blanked)
            if any(job.future for job in jobs):  # deferred jobs alone are too small to prove room
                self._set_write_error(None)
        except Exception as exc:  # noqa: BLE001 - were the thread to end, nobody would be answered
            error = exc if isinstance(exc, StoreUnavailable) else connections.unavailable_error(exc)
            if not isinstance(exc, _REFUSED):
                self._fatal_error = StoreUnavailable(f"{error.detail}; restart the service")
            resolved = [Completion(job.future, None, error) for job in jobs if job.future]
            self._roll_back()
            self._hash_index.forget()
            self._set_write_error(error)
        self._erasure_version += self._erasure_version % 2
        completions.resolve(resolved)

    def _publish_commit(self, group: GroupCommit, blanked: ErasedDocuments) -> None:
        """Update caches and the log after a commit."""
        self._hash_index.commit()
        self._scopes_version += group.moves_scopes
        if group.erases:
            self.on_erased(self._erasure_version + 1, blanked)
        self._wal_truncation.step(erases=group.erases)

    def _check_database_file(self) -> None:
        if self._fatal_error is None:
            try:
                self._file.check()
            except StoreUnavailable as exc:
                self._fatal_error = exc
        self._raise_if_unusable()

    def _raise_if_unusable(self) -> None:
        lasting = self._fatal_error or self._damage
        if lasting:
            raise lasting

    def _set_write_error(self, error: StoreUnavailable | None) -> None:
        """Log when writes begin to fail, and when they succeed again.

        A rolled-back write leaves its room in the write-ahead log, where a small one fits although
        the disk is full.
        """
        if isinstance(error, StoreDamaged):
            self.mark_damaged(error)
        if self._write_error and not error and self._file.free_bytes() < _MIN_FREE_BYTES:
            return
        if error and not self._write_error:
            _log.error("the store takes no writes", extra={"fields": {"why": error.detail}})
        if not error and self._write_error:
            _log.info("the store takes writes again")
        self._write_error = error

    def _run_batch(
        self, pending_jobs: deque[_Job], head: ChainHead, group: GroupCommit
    ) -> tuple[ChainHead, list[tuple[Any, BaseException | None]]]:
        """Run the first jobs with fewer statements, if they can be merged.

        An empty list of results means that the first job must run alone.
        """
        kind = type(pending_jobs[0].operation)
        first = itertools.islice(pending_jobs, _MAX_BATCHED_JOBS)
        operations = [
            job.operation
            for job in itertools.takewhile(lambda job: type(job.operation) is kind, first)
        ]
        if len(operations) == 1 or not isinstance(operations[0], BatchableJob):
            return head, []
        merged = _Job(partial(operations[0].run_batch, jobs=operations), None)
        head, results, error = self._run_job(merged, head, group)
        return head, [] if error else [(result, None) for result in results]

    def _run_job(
        self, job: _Job, head: ChainHead, group: GroupCommit
    ) -> tuple[ChainHead, Any, BaseException | None]:
        transaction = Transaction(
            self._connection, head, self._ids, self._clock(), self._hash_index,
            undeclared_facts=self._undeclared_facts,
        )  # fmt: skip
        mark = self._hash_index.savepoint()
        # The first job needs no savepoint: the whole transaction is rolled back. A savepoint costs
        # time.
        has_savepoint = group.is_begun
        if has_savepoint:
            self._connection.execute("SAVEPOINT job")
        try:
            result = job.operation(transaction)
        except connections.ENVIRONMENTAL:
            raise
        except Exception as exc:  # noqa: BLE001 - whoever waits for the job gets it, whatever it is
            back = "ROLLBACK TO job; RELEASE job" if has_savepoint else "ROLLBACK; BEGIN IMMEDIATE"
            self._connection.execute(back)
            self._hash_index.rollback(mark)
            return head, None, exc
        if has_savepoint:
            self._connection.execute("RELEASE job")
        group.take(transaction)
        return transaction.head, result, None

    def _end(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except connections.ENVIRONMENTAL as exc:
            if connections.is_transient(exc):
                raise
            self._fatal_error = StoreUnavailable(
                f"a commit failed ({exc}); restart the service after the disk is repaired"
            )
            raise self._fatal_error from exc

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except connections.ENVIRONMENTAL as exc:
            self._fatal_error = connections.unavailable_error(exc)


def _no_commit(patience_s: float) -> StoreUnavailable:
    return StoreUnavailable(
        f"no commit for {patience_s:g} s: the disk is slow or hangs, or a large write is under way;"
        " what was sent may still be stored, so repeat it with the same Idempotency-Key"
    )
