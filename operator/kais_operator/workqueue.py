"""A keyed queue with delays: what to look at next, and when.

A key waits at most once, however often it is added, and never runs twice at a time: what is added
while it runs waits for the end of that run. Knows no kinds; keys are hashable.

    add(key, after) -> Schedule (pure: who waits until when) -> at most `workers` tasks -> work(key)
                          ^---- seconds to the next look, or backoff after an error ----'
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


class Backoff(Exception):
    """Raised by work that shall be repeated, later each time, at most `cap_s` apart.

    `within_s` bounds the pause from above when something is due anyway, such as a timeout.
    """

    def __init__(
        self, reason: str, *, cap_s: float = BACKOFF_CAP_S, within_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.cap_s = cap_s
        self.within_s = within_s


class Observer(Protocol[K_contra]):
    """Told after each run of a key; `result` is `ok`, `retry` or `error`."""

    def __call__(self, key: K_contra, *, result: str, seconds: float) -> None:
        """Take note; must not block or raise."""


def backoff_s(failures: int, *, cap_s: float, dice: float) -> float:
    """Give the pause after the `failures`-th failure in a row; `dice` in [0, 1) spreads it.

    Doubles from `FIRST_BACKOFF_S` up to `cap_s`, each between half and all of that.
    """
    longest = min(cap_s, FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 30))
    return longest * (0.5 + dice / 2)


class Schedule(Generic[K]):
    """Which keys wait until when, and which run; pure but for its own state."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._waiting: dict[K, float] = {}
        self._running: set[K] = set()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many keys were taken and not yet done."""
        return len(self._running)

    def add(self, key: K, *, at: float) -> None:
        """Have a key run at a time or soon after; of two times the earlier wins."""
        if at >= self._waiting.get(key, float("inf")):
            return
        self._waiting[key] = at
        if key not in self._running:
            heapq.heappush(self._heap, (at, next(self._order), key))

    def take(self, now: float) -> K | None:
        """Take the key that is due longest, of those that do not run; None when none is due."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._waiting[key]
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """End the run of a key; what was added meanwhile waits from now on."""
        self._running.remove(key)
        if key in self._waiting:
            heapq.heappush(self._heap, (self._waiting[key], next(self._order), key))

    def late_s(self, now: float) -> float:
        """Say how long the key that is due longest, and does not run, has been due; 0 if none."""
        at = self.next_at()
        return 0.0 if at is None else max(0.0, now - at)

    def next_at(self) -> float | None:
        """Say when the next key is due; None when none waits but for a run's end."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def _drop_stale(self) -> None:
        """Drop entries that an earlier time, or a run, has made void."""
        while self._heap:
            at, _, key = self._heap[0]
            if self._waiting.get(key) == at and key not in self._running:
                return
            heapq.heappop(self._heap)


class WorkQueue(Generic[K]):
    """Runs `work` for the keys of a schedule, at most `workers` at a time.

    `work` gives the seconds until the key's next look, None to wait for an `add`, or raises.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        monotonic: Callable[[], float],
        jitter: Callable[[], float],
        workers: int = 16,
        observer: Observer[K] | None = None,
    ) -> None:
        self._work = work
        self._monotonic = monotonic
        self._jitter = jitter
        self._workers = workers
        self._observer = observer
        self._schedule: Schedule[K] = Schedule()
        self._failures: dict[K, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def depth(self) -> int:
        """How many keys wait, those for later included."""
        return len(self._schedule)

    @property
    def age_s(self) -> float:
        """How long the key that is due longest has waited for a worker; 0 when none does."""
        return self._schedule.late_s(self._monotonic())

    def add(self, key: K, *, after: float = 0.0) -> None:
        """Have a key run in `after` seconds, or earlier if it waits for that already."""
        self._schedule.add(key, at=self._monotonic() + after)
        self._wake.set()

    def stop(self) -> None:
        """Take no more keys; `run` returns when those that run have ended."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`, then drain. Cancelling it cancels what runs, at once."""
        try:
            while not self._stopping:
                self._wake.clear()
                self._start_due()
                await self._sleep()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_due(self) -> None:
        while len(self._tasks) < self._workers:
            key = self._schedule.take(self._monotonic())
            if key is None:
                return
            task = asyncio.create_task(self._run_one(key))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _sleep(self) -> None:
        """Wait for an add, a run's end, or the next key's time."""
        timeout: float | None = None
        at = self._schedule.next_at()
        if at is not None and len(self._tasks) < self._workers:
            timeout = max(0.0, at - self._monotonic())
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _run_one(self, key: K) -> None:
        began = self._monotonic()
        result = "ok"
        again: float | None = None
        try:
            again = await self._work(key)
            self._failures.pop(key, None)
        except Backoff as exc:
            result = "retry"
            again = self._backoff(key, cap_s=exc.cap_s)
            if exc.within_s is not None:
                again = min(again, exc.within_s)
            logger.info("%s again in %.1f s", key, again)
        except Exception:
            # A bug met on one key must not stop the work on the others.
            result = "error"
            again = self._backoff(key, cap_s=BACKOFF_CAP_S)
            logger.exception("%s failed; again in %.1f s", key, again)
        finally:
            self._schedule.done(key)
            if again is not None and not self._stopping:
                self._schedule.add(key, at=self._monotonic() + again)
        if self._observer is not None:
            self._observer(key, result=result, seconds=self._monotonic() - began)

    def _backoff(self, key: K, *, cap_s: float) -> float:
        self._failures[key] = self._failures.get(key, 0) + 1
        return backoff_s(self._failures[key], cap_s=cap_s, dice=self._jitter())
