"""A queue of work that no caller waits for, such as receipts without a run.

Its size and the age of its jobs are bounded.

A few jobs are added to each commit of other writes. Due jobs are added to the next commit, many at
once, so that they do not fall behind on a slow disk with few commits. If that is not enough,
further jobs are rejected, because they would be written ever later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from knowledge_service.errors import StoreUnavailable

_log = logging.getLogger(__name__)
T = TypeVar("T")
DELAY_S = 0.5
"""How long a job may be delayed."""
# Some kilobytes each.
_MAX_JOBS = 4_096
# If a job waits longer, the disk is too slow.
_MAX_AGE_S = 5.0
# The maximum number of due jobs in one commit, which delays a waiting caller by some 20 ms.
_MAX_JOBS_PER_COMMIT = 128


class DeferredQueue(Generic[T]):
    """A queue from many threads to the writer."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._jobs: deque[tuple[float, T]] = deque()
        self._lock = threading.Lock()
        self._is_refusing = False

    def __len__(self) -> int:
        """Count the waiting jobs."""
        return len(self._jobs)

    @property
    def waiting_s(self) -> float:
        """Return how many seconds the oldest job has waited; 0 when none waits."""
        with self._lock:
            return self._monotonic() - self._jobs[0][0] if self._jobs else 0.0

    def append(self, job: T) -> None:
        """Enqueue a job.

        Raises:
            StoreUnavailable: the disk is too slow for the waiting jobs.
        """
        with self._lock:
            now_s = self._monotonic()
            age_s = now_s - self._jobs[0][0] if self._jobs else 0.0
            is_full = len(self._jobs) >= _MAX_JOBS or age_s > _MAX_AGE_S
            if is_full != self._is_refusing:
                self._is_refusing = is_full
                self._report(age_s)
            if is_full:
                raise StoreUnavailable(
                    f"{len(self._jobs)} receipts wait for the disk, the oldest for {age_s:.1f} s;"
                    " this one is not stored"
                )
            self._jobs.append((now_s, job))

    def take(self, minimum: int) -> list[T]:
        """Dequeue `minimum` jobs, oldest first, or more when more are due."""
        with self._lock:
            due_s = self._monotonic() - DELAY_S
            jobs: list[T] = []
            while self._jobs and (
                len(jobs) < minimum
                or (len(jobs) < _MAX_JOBS_PER_COMMIT and self._jobs[0][0] <= due_s)
            ):
                jobs.append(self._jobs.popleft()[1])
            return jobs

    def _report(self, age_s: float) -> None:
        if not self._is_refusing:
            _log.info("receipts are stored again")
            return
        fields = {"waiting": len(self._jobs), "oldest_s": round(age_s, 1)}
        _log.warning("receipts are not stored: the disk is slow", extra={"fields": fields})
