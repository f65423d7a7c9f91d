"""A work queue with one entry for each key, delays and backoff.

A key is queued at most once, however often it is added, and is never reconciled twice at a time: a
key that is added while it is reconciled waits for the end. The queue knows nothing of kinds; keys
are hashable.

    add(key, delay_s) -> Schedule (pure) -> at most `workers` tasks -> reconcile(key)
                           ^---- seconds to the next reconcile, or the backoff ----'
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)
FIRST_BACKOFF_S = 0.2
BACKOFF_CAP_S = 300.0
WORKERS = 16
"""Concurrent reconciles. `agents/silent_cells.py` bounds those that wait 5 s for a silent cell."""


class Backoff(Exception):
    """Raised by a reconcile to be repeated with growing delays of at most `cap_s`.

    `within_s` also bounds the delay, for what is due anyway, such as a timeout.
    """

    def __init__(
        self, reason: str, *, cap_s: float = BACKOFF_CAP_S, within_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.cap_s = cap_s
        self.within_s = within_s


class Observer(Protocol[K_contra]):
    """Called after each reconcile; `result` is `ok`, `retry` or `error`."""

    def __call__(self, key: K_contra, *, result: str, seconds: float) -> None:
        """Record one reconcile; must not block or raise."""


def _no_priority_delay(_: object, __: float) -> float:
    """Give every key the same priority."""
    return 0.0


def backoff_s(failures: int, *, cap_s: float, jitter: float) -> float:
    """Return the delay after the `failures`-th failure in a row; `jitter` is in [0, 1).

    The delay doubles from `FIRST_BACKOFF_S` up to `cap_s`; jitter takes away up to half of it.
    """
    ceiling_s = min(cap_s, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 30))
    return ceiling_s * (0.5 + jitter / 2)


class Schedule(Generic[K]):
    """The queued keys with their times, and the running keys; does no I/O and reads no clock.

    Of the keys that are due, the one with the earliest time plus priority delay runs first. The
    priority delay matters only while more keys are due than there are workers.
    """

    def __init__(self) -> None:
        self._delayed: list[tuple[float, int, float, K]] = []
        self._due: list[tuple[float, int, float, K]] = []
        self._waiting: dict[
            K, tuple[float, float]
        ] = {}  # when it is due, and its rank among due keys
        self._undelayed: dict[K, float] = {}  # since when each waits, the oldest first
        self._running: set[K] = set()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """The number of keys that are being reconciled."""
        return len(self._running)

    def add(
        self, key: K, *, at: float, priority_delay_s: float = 0.0, is_delayed: bool = False
    ) -> None:
        """Queue a key for a time; if it is queued already, the earlier time wins.

        Unless it `is_delayed`, it is part of the backlog.
        """
        if not is_delayed:
            self._undelayed.setdefault(key, at)
        queued = self._waiting.get(key)
        requested = (at, at + priority_delay_s)
        if queued is not None:
            requested = (min(at, queued[0]), min(requested[1], queued[1]))
        if requested == queued:
            return
        self._waiting[key] = requested
        if key not in self._running:
            self._push(key)

    def pop_due(self, now: float) -> K | None:
        """Remove and return the due key that ranks first and is not running; None if there is none.

        `now` must not decrease between calls.
        """
        while self._delayed and self._delayed[0][0] <= now:
            at, order, urgency, key = heapq.heappop(self._delayed)
            if self._is_valid(key, at, urgency):
                heapq.heappush(self._due, (urgency, order, at, key))
        self._drop_stale()
        if not self._due:
            return None
        _, _, _, key = heapq.heappop(self._due)
        del self._waiting[key]
        self._undelayed.pop(key, None)
        self._running.add(key)
        return key

    def finish(self, key: K) -> None:
        """End the run of a key; if it was added meanwhile, it is queued again."""
        self._running.remove(key)
        if key in self._waiting:
            self._push(key)

    def oldest_age_s(self, now: float) -> float:
        """Return how long the oldest due key has been waiting; 0 if none is due."""
        due_times = [at for urgency, _, at, key in self._due if self._is_valid(key, at, urgency)]
        next_due = self.next_due_at()
        if next_due is not None:
            due_times.append(next_due)
        return max(0.0, now - min(due_times, default=now))

    def backlog_age_s(self, now: float) -> float:
        """Return how long the oldest key that was added without a delay has waited; 0 if none.

        A key that waits for the end of its own run does not count: no worker is missing.
        """
        waiting = (at for key, at in self._undelayed.items() if key not in self._running)
        return max(0.0, now - next(waiting, now))

    def next_due_at(self) -> float | None:
        """Return when the next key is due; None if every queued key is running."""
        self._drop_stale()
        if self._due:
            return self._due[0][2]
        return self._delayed[0][0] if self._delayed else None

    def _push(self, key: K) -> None:
        at, urgency = self._waiting[key]
        heapq.heappush(self._delayed, (at, next(self._order), urgency, key))

    def _is_valid(self, key: K, at: float, urgency: float) -> bool:
        """Return False for an entry whose key has another time by now, or is running."""
        return self._waiting.get(key) == (at, urgency) and key not in self._running

    def _drop_stale(self) -> None:
        while self._due and not self._is_valid(self._due[0][3], self._due[0][2], self._due[0][0]):
            heapq.heappop(self._due)
        while self._delayed and not self._is_valid(
            self._delayed[0][3], self._delayed[0][0], self._delayed[0][2]
        ):
            heapq.heappop(self._delayed)


class WorkQueue(Generic[K]):
    """Reconciles the queued keys, at most `workers` at a time.

    `reconcile` returns the seconds until the key's next reconcile, or None to wait for `add`.
    `priority_delay_s` returns how far a key ranks behind others that are due, given how many
    seconds it is delayed; a negative one ranks ahead.
    """

    def __init__(
        self,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        monotonic: Callable[[], float],
        jitter: Callable[[], float],
        workers: int = WORKERS,
        observer: Observer[K] | None = None,
        priority_delay_s: Callable[[K, float], float] = _no_priority_delay,
    ) -> None:
        self._reconcile = reconcile
        self._monotonic = monotonic
        self._jitter = jitter
        self._workers = workers
        self._observer = observer
        self._priority_delay_s = priority_delay_s
        self._schedule: Schedule[K] = Schedule()
        self._failures: dict[K, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def depth(self) -> int:
        """The number of queued keys, including delayed ones."""
        return len(self._schedule)

    @property
    def oldest_age_s(self) -> float:
        """How long the oldest due key has waited for a worker; 0 if none is due."""
        return self._schedule.oldest_age_s(self._monotonic())

    @property
    def backlog_age_s(self) -> float:
        """How long the oldest key that was added without a delay has waited; 0 if none waits."""
        return self._schedule.backlog_age_s(self._monotonic())

    def add(self, key: K, *, delay_s: float = 0.0) -> None:
        """Queue a key for `delay_s` seconds from now, or earlier if it already is."""
        self._add(key, delay_s=delay_s)
        self._wake.set()

    def stop(self) -> None:
        """Start no more reconciles; `run` returns when the running ones have ended."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Reconcile until `stop`, then drain. Cancelling cancels running reconciles at once."""
        try:
            while not self._stopping:
                self._wake.clear()
                self._start_due()
                await self._wait_for_change()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _add(self, key: K, *, delay_s: float) -> None:
        priority_delay_s = self._priority_delay_s(key, delay_s)
        self._schedule.add(
            key,
            at=self._monotonic() + delay_s,
            priority_delay_s=priority_delay_s,
            is_delayed=delay_s > 0,
        )

    def _start_due(self) -> None:
        while len(self._tasks) < self._workers:
            key = self._schedule.pop_due(self._monotonic())
            if key is None:
                return
            task = asyncio.create_task(self._reconcile_key(key))
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _wait_for_change(self) -> None:
        """Wait until a key is added, a reconcile ends or the next key is due."""
        timeout: float | None = None
        at = self._schedule.next_due_at()
        if at is not None and len(self._tasks) < self._workers:
            timeout = max(0.0, at - self._monotonic())
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _reconcile_key(self, key: K) -> None:
        started_at = self._monotonic()
        result = "ok"
        next_delay_s: float | None = None
        try:
            next_delay_s = await self._reconcile(key)
            self._failures.pop(key, None)
        except Backoff as exc:
            result = "retry"
            next_delay_s = self._backoff(key, cap_s=exc.cap_s)
            if exc.within_s is not None:
                next_delay_s = min(next_delay_s, exc.within_s)
            logger.info("%s: next reconcile in %.1f s", key, next_delay_s)
        except Exception:
            # A bug in the reconcile of one key must not stop the others.
            result = "error"
            next_delay_s = self._backoff(key, cap_s=BACKOFF_CAP_S)
            logger.exception("%s: reconcile failed; next in %.1f s", key, next_delay_s)
        finally:
            self._schedule.finish(key)
            if next_delay_s is not None and not self._stopping:
                self._add(key, delay_s=next_delay_s)
        if self._observer is not None:
            self._observer(key, result=result, seconds=self._monotonic() - started_at)

    def _backoff(self, key: K, *, cap_s: float) -> float:
        self._failures[key] = self._failures.get(key, 0) + 1
        return backoff_s(self._failures[key], cap_s=cap_s, jitter=self._jitter())
