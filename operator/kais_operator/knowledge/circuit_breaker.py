"""Keeps calls from waiting for a knowledge service that hangs: each would hold a reconcile for 5 s.

closed    calls are sent; one that times out while no other is answered opens the breaker
open      calls fail at once; one is sent 10 s after the last timeout, or after `allow_try`; any
          answer closes the breaker, as does a refused connection
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import httpx

from kais_operator.ports import Clock
from knowledge_client import errors

_PAUSE_S = 10.0
"""Pause before a service that hangs is tried again; the sync loop may end it sooner."""


class NotSent(errors.KnowledgeUnavailable):
    """The call was not sent, because the service hangs."""


@dataclass(frozen=True)
class _Outage:
    """The first timeout and its time; `try_at_s`, monotonic, is when a call may be sent again."""

    problem: str
    since: datetime
    try_at_s: float


class CircuitBreaker:
    """Watches the calls of one sort to the knowledge service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._outage: _Outage | None = None
        self._answers = 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Refuse the call of this context if the service hangs; otherwise learn from how it ends.

        Raises:
            NotSent: the service hangs.
        """
        self._admit()
        with self.observe():
            yield

    @contextlib.contextmanager
    def observe(self) -> Iterator[None]:
        """Learn from the call of this context, which is sent in any case."""
        answers = self._answers
        try:
            yield
        except errors.KnowledgeError as exc:
            if not isinstance(exc.__cause__, httpx.TimeoutException):
                self._close()
            elif self._answers == answers:
                self._open(str(exc))
            raise
        self._close()

    def allow_try(self) -> None:
        """Let the next call be sent at once."""
        if self._outage is not None:
            self._outage = replace(self._outage, try_at_s=self._clock.monotonic())

    def _admit(self) -> None:
        outage, now_s = self._outage, self._clock.monotonic()
        if outage is None:
            return
        if now_s < outage.try_at_s:
            raise NotSent(
                f"{outage.problem}; it has not answered since {outage.since:%Y-%m-%dT%H:%M:%SZ}"
            )
        self._outage = replace(outage, try_at_s=now_s + _PAUSE_S)

    def _open(self, problem: str) -> None:
        outage = self._outage or _Outage(problem, self._clock.now(), 0.0)
        self._outage = replace(outage, try_at_s=self._clock.monotonic() + _PAUSE_S)

    def _close(self) -> None:
        self._outage = None
        self._answers += 1
