"""Remembers which requests passed a limit, and when each may be tried again.

The pause doubles with each failure in a row: a limit of time may have been the machine's fault, but
a template that hangs would otherwise take the workers' time for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from kais_operator import errors

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 3600.0
_MAX_FAILURES = 1000  # arbitrary; one that is forgotten is only tried early


@dataclass(frozen=True)
class _Failure:
    error: errors.RenderingFailed
    count: int
    retry_at_s: float


class RenderFailures:
    """Failures by request; `monotonic` gives the seconds of a clock that never goes back."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[bytes, _Failure] = OrderedDict()

    def raise_if_paused(self, *keys: bytes) -> None:
        """Repeat the failure of a request that is not to be tried again yet.

        Raises:
            RenderingFailed: As it was, with the time that is left.
        """
        for key in keys:
            failure = self._failures.get(key)
            if failure is not None and self._monotonic() < failure.retry_at_s:
                raise self._error_of(failure)

    def record(self, key: bytes, error: errors.RenderingFailed) -> errors.RenderingFailed:
        """Remember a failure; gives it with the time after which it is tried again."""
        previous = self._failures.pop(key, None)
        count = previous.count + 1 if previous is not None else 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(count - 1, 30))
        failure = _Failure(error, count, self._monotonic() + pause_s)
        self._failures[key] = failure
        if len(self._failures) > _MAX_FAILURES:
            self._failures.popitem(last=False)
        return self._error_of(failure)

    def clear(self, key: bytes) -> None:
        """Forget the failures of a request that was answered."""
        self._failures.pop(key, None)

    def _error_of(self, failure: _Failure) -> errors.RenderingFailed:
        error = failure.error
        retry_after_s = max(0.0, failure.retry_at_s - self._monotonic())
        return errors.RenderingFailed(str(error), cap=error.cap, retry_after_s=retry_after_s)
