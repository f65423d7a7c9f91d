"""The only reader of the clock; see `ports.Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall-clock time in UTC, and the monotonic clock in seconds."""

    def now(self) -> datetime:
        """Return the aware wall-clock time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()
