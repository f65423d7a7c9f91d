"""The queue of writes: its bound, the time limit of a write, and the thread that empties it.

The thread takes what is queued, at most 256 jobs, as one commit (`group_commit`), and answers each
caller after it. Callers in an event loop are woken once per commit. A commit that finds no room or
no writable disk fails its jobs; `write_health` decides about the next ones.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar, cast

import apsw

from knowledge_service.clock import Clock
from knowledge_service.domain.capacity import UNDECLARED_FACTS
from knowledge_service.errors import StoreDamaged, StoreUnavailable
from knowledge_service.event_log import times
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import connection as connections
from knowledge_service.store.sqlite.db import deferred_writes, job_results, wal_truncation
from knowledge_service.store.sqlite.db.deferred_writes import DeferredQueue
from knowledge_service.store.sqlite.db.group_commit import GroupCommit, Job
from knowledge_service.store.sqlite.db.job_results import JobResult
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer
from knowledge_service.store.sqlite.db.write_health import WriteHealth

T = TypeVar("T")
# A commit does not wait for further jobs. It takes at most this many queued jobs, so that no answer
# waits for long.
_MAX_JOBS_PER_COMMIT = 256
# The maximum length of the queue: some seconds of the writer's work.
_MAX_QUEUED = 2_048
_REFUSED: tuple[type[Exception], ...] = (StoreUnavailable, *connections.ENVIRONMENTAL)
# The number of deferred jobs (receipts without a run) in a commit with jobs of callers, and in one
# without. The latter is as high as for due jobs, because many jobs write the same pages.
_DEFERRED_PER_COMMIT, _DEFERRED_PER_IDLE_COMMIT = 8, 128
# The maximum wait for a commit; a client has given up by then.
_COMMIT_TIMEOUT_S = 20.0


_WAKE_FOR_DEFERRED = Job(lambda _: None, None)
"""Wakes the writer for work that no caller waits for."""
_WAL_IS_SHORT = Job(lambda _: None, None)
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
        self._clock = clock
        self._health = WriteHealth(file)
        self._commits = GroupCommit(
            connection, clock, self._health, undeclared_facts=undeclared_facts
        )
        self._wal_truncation = wal_truncation.WalTruncation(connection, checkpointer)
        checkpointer.on_short = lambda: self._queue.put(_WAL_IS_SHORT)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.deferred: DeferredQueue[Job] = DeferredQueue()
        """Jobs that no caller waits for."""
        self._is_wakeup_queued = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def watch_erasures(
        self,
        on_erased: Callable[[int, ErasedDocuments], None],
        on_version: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Call `on_erased` after each commit that erased text, before its version can be read.

        Call `on_version` with each new `erasure_version`, before the commit and after it.
        """
        self._commits.on_erased = on_erased
        self._commits.on_version = on_version

    @property
    def fatal_error(self) -> StoreUnavailable | None:
        """The failure since which the store is read-only; None as long as writes are possible."""
        return self._health.fatal_error

    def mark_damaged(self, damage: StoreDamaged) -> None:
        """Reject all further writes, because a restored copy would not have them."""
        self._health.mark_damaged(damage)

    @property
    def write_error(self) -> StoreUnavailable | None:
        """The reason why the last writes failed; None once there is room again."""
        return self._health.write_error

    @property
    def latest_us(self) -> int:
        """The time of the last event in microseconds since 1970; 0 in an empty log."""
        return self._commits.chain_head.at

    @property
    def scopes_version(self) -> int:
        """A number that changes when scopes or principals change."""
        return self._commits.scopes_version

    def now(self) -> datetime:
        """Return the time that a write would get now; never before the last event."""
        return max(self._clock(), times.from_us(self._commits.chain_head.at))

    @property
    def erased_since_s(self) -> float | None:
        """Seconds that erased bytes have been in the write-ahead log; None if there are none."""
        return self._wal_truncation.due_for_s

    @property
    def erasure_version(self) -> int:
        """A number that changes with each erasure; odd while one is being committed."""
        return self._commits.erasure_version

    @property
    def erased_at_s(self) -> float:
        """When text was last erased or hidden, by `time.monotonic`: no later snapshot has it."""
        return self._commits.erased_at_s

    def submit(
        self, operation: Callable[[Transaction], T], *, patience_s: float = _COMMIT_TIMEOUT_S
    ) -> T:
        """Run a job and return its result after the commit.

        Raises:
            StoreUnavailable: the write is not stored, or its outcome is unknown.
        """
        future: Future[Any] = Future()
        self._enqueue(Job(operation, future))
        try:
            return cast("T", future.result(patience_s))
        except TimeoutError as exc:
            raise _no_commit(patience_s) from exc

    async def submit_async(self, operation: Callable[[Transaction], T]) -> T:
        """Run a job like `submit`, without blocking the event loop.

        Raises:
            StoreUnavailable: as for `submit`.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._enqueue(Job(operation, future))
        # A timer for the future alone: `asyncio.timeout` cancels the task, and costs twice as much.
        timer = loop.call_later(_COMMIT_TIMEOUT_S, _give_up, future)
        try:
            return cast("T", await future)
        finally:
            timer.cancel()

    def _enqueue(self, job: Job) -> None:
        self._health.raise_lasting_error()
        if self._queue.qsize() >= _MAX_QUEUED:
            raise StoreUnavailable(
                f"{_MAX_QUEUED} writes are queued; this one was not stored, try again later"
            )
        self._queue.put(job)

    def submit_later(self, operation: Callable[[Transaction], Any]) -> None:
        """Run a job soon, without reporting whether it was stored.

        Raises:
            StoreUnavailable: the job would be lost, because the last commit failed or the disk is
                too slow.
        """
        if self._health.last_error:
            raise self._health.last_error
        self.deferred.append(Job(operation, None))
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
        return wal_truncation.IDLE_RETRY_S if self._wal_truncation.is_due else None

    def _truncate_wal(self) -> None:
        if self._health.lasting_error is None:
            self._wal_truncation.step(erases=False)

    def _take_deferred(self, minimum: int) -> list[Job]:
        """Dequeue some deferred jobs."""
        self._is_wakeup_queued = False
        return self.deferred.take(minimum)

    def _gather(self, first: Job | None) -> tuple[list[Job], bool]:
        group: list[Job] = []
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

    def _commit(self, jobs: list[Job]) -> None:
        results: list[JobResult] = []
        try:
            self._health.check_file()
            self._checkpointer.finish(self._connection)
            results, has_erasures = self._commits.commit(jobs)
            self._wal_truncation.step(erases=has_erasures)
            if any(job.future for job in jobs):  # deferred jobs alone are too small to prove room
                self._health.set_write_error(None)
        except Exception as exc:  # noqa: BLE001 - if the thread ended, no caller would be answered
            error = exc if isinstance(exc, StoreUnavailable) else connections.unavailable_error(exc)
            if not isinstance(exc, _REFUSED):
                self._health.fatal_error = StoreUnavailable(f"{error.detail}; restart the service")
            results = [JobResult(job.future, None, error) for job in jobs if job.future]
            self._commits.roll_back()
            self._health.set_write_error(error)
        self._commits.end_erasure()
        job_results.deliver(results)


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(_no_commit(_COMMIT_TIMEOUT_S))


def _no_commit(patience_s: float) -> StoreUnavailable:
    return StoreUnavailable(
        f"no commit for {patience_s:g} s: the disk is slow or hangs, or a large write is under way;"
        " what was sent may still be stored, so repeat it with the same Idempotency-Key"
    )
