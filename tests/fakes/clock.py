"""A clock that moves only when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """The Clock port; both times move together."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed_s

    def advance(self, seconds: float) -> None:
        self._elapsed_s += seconds
