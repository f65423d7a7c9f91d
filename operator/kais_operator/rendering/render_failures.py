"""Remembers which requests exceeded a limit, and when each may be tried again.

The delay doubles with each failure in a row: a time limit may have been exceeded because of the
machine, but a template that hangs must not occupy the workers forever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from kais_operator import errors

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 3600.0
_MAX_FAILURES = 1000  # arbitrary; a dropped one is only tried earlier


@dataclass(frozen=True)
class _Failure:
    error: errors.RenderingFailed
    count: int
    retry_at_s: float


class RenderFailures:
    """Failures by request; `monotonic` returns the seconds of a monotonic clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[bytes, _Failure] = OrderedDict()

    def raise_if_paused(self, *keys: bytes) -> None:
        """Raise the failure of a request that is not to be tried again yet.

        Raises:
            RenderingFailed: The failure, with the remaining time.
        """
        for key in keys:
            failure = self._failures.get(key)
            if failure is not None and self._monotonic() < failure.retry_at_s:
                raise self._error_of(failure)

    def record(self, key: bytes, error: errors.RenderingFailed) -> errors.RenderingFailed:
        """Record a failure; return it with the time after which it is tried again."""
        previous = self._failures.pop(key, None)
        count = previous.count + 1 if previous is not None else 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(count - 1, 30))
        failure = _Failure(error, count, self._monotonic() + pause_s)
        self._failures[key] = failure
        if len(self._failures) > _MAX_FAILURES:
            self._failures.popitem(last=False)
        return self._error_of(failure)

    def clear(self, key: bytes) -> None:
        """Drop the failures of a request that succeeded."""
        self._failures.pop(key, None)

    def _error_of(self, failure: _Failure) -> errors.RenderingFailed:
        error = failure.error
        retry_after_s = max(0.0, failure.retry_at_s - self._monotonic())
        return errors.RenderingFailed(str(error), cap=error.cap, retry_after_s=retry_after_s)
