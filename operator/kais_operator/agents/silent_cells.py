"""Cells that do not answer in time, and when each may be polled again.

A request to such a cell holds a reconcile for seconds. So all missions share the next request to
it, and few of these cells are polled at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from kais_operator.agents import request_failures
from kais_operator.ports import Clock
from knowledge_client.errors import KnowledgeError

_PAUSE_S = 10.0
"""Pause before a cell that did not answer in time is polled again, for whichever mission."""
_MAX_POLLED = 4
"""The maximum number of such cells that are polled at once: each holds a reconcile for 5 s."""
_MAX_CELLS = 2000  # arbitrary


@dataclass(frozen=True)
class _Silence:
    """A cell did not answer in time; `poll_at_s`, monotonic, is when it may be polled again."""

    problem: str
    poll_at_s: float


class SilentCells:
    """The cells whose last request timed out, by the base of their URLs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silences: dict[str, _Silence] = {}
        self._polled: set[str] = set()

    def problem_of(self, base: str) -> str | None:
        """Return why a cell may not be polled now; None if it may be."""
        silence = self._silences.get(base)
        if silence is None:
            return None
        is_free = len(self._polled) < _MAX_POLLED and base not in self._polled
        is_pollable = is_free and self._clock.monotonic() >= silence.poll_at_s
        return None if is_pollable else silence.problem

    @contextlib.contextmanager
    def request(self, base: str) -> Iterator[None]:
        """Record whether a cell answers the request within this context in time."""
        if base in self._silences:
            self._polled.add(base)
        try:
            yield
        except KnowledgeError:
            raise  # the knowledge service gave no ticket, which says nothing about the cell
        except request_failures.FAILURES as exc:
            if request_failures.is_timeout(exc):
                self._record_silence(base, exc)
            else:
                self._silences.pop(base, None)
            raise
        else:
            self._silences.pop(base, None)
        finally:
            self._polled.discard(base)

    def _record_silence(self, base: str, exc: Exception) -> None:
        if len(self._silences) >= _MAX_CELLS:
            self._silences.pop(next(iter(self._silences)))
        poll_at_s = self._clock.monotonic() + _PAUSE_S
        self._silences[base] = _Silence(request_failures.describe(exc), poll_at_s)
