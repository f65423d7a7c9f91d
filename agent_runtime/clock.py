"""The only reader of the clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall-clock time in seconds since 1970."""

    def now_s(self) -> float:
        """Return the wall-clock time."""
        return time.time()
